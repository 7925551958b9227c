#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make_guest.sh OUT CACHE: a guest for the test of capture: OUT/vmlinuz (Debian's cloud kernel) and OUT/initramfs.gz
# with busybox, the virtio modules and an agent that runs each line it gets on the first virtio-serial port and answers
# with one line. The kernel comes from an installed package, else from CACHE, where a download is kept.
set -euo pipefail
out=$1 cache=$2
mkdir -p "$out" "$cache"
fail() { echo "make_guest.sh: $*" >&2; exit 1; }
busybox=$(command -v busybox) || fail "busybox is missing: apt-get install busybox-static"
command -v cpio >/dev/null || fail "cpio is missing: apt-get install cpio"

installed=$(ls -d /lib/modules/*-cloud-amd64/kernel/drivers/virtio 2>/dev/null | sort -V | tail -1 || true)
if [ -n "$installed" ]; then
  release=$(basename "${installed%/kernel/drivers/virtio}")
  root=
else
  name=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/{print $2; exit}')
  [ -n "$name" ] || fail "no Debian cloud kernel: linux-image-cloud-amd64 is neither installed nor known to apt"
  root=$cache/$name
  if [ ! -d "$root" ]; then
    work=$(mktemp -d "$cache/download.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    deb=$(ls /var/cache/apt/archives/"$name"_*.deb 2>/dev/null | tail -1 || true)
    if [ -z "$deb" ]; then
      (cd "$work" && apt-get download -o APT::Sandbox::User=root "$name" >&2) || fail "cannot download $name"
      deb=$(ls "$work"/"$name"_*.deb)
    fi
    dpkg -x "$deb" "$work/root"
    mv -T "$work/root" "$root" 2>/dev/null || [ -d "$root" ]  # another run may have been faster
  fi
  release=$(basename "$root"/lib/modules/*)
fi
cp "$root/boot/vmlinuz-$release" "$out/vmlinuz"
modules=$root/lib/modules/$release/kernel

tree=$out/tree
mkdir -p "$tree/bin" "$tree/m"
cp "$busybox" "$tree/bin/busybox"
order="virtio_ring virtio virtio_mmio virtio_blk virtio_console"
for module in $order; do
  file=$(find "$modules/drivers" -name "$module.ko*" | head -1)
  [ -n "$file" ] || fail "the kernel has no module $module"
  case $file in
    *.xz) xz -dc "$file" > "$tree/m/$module.ko" ;;
    *) cp "$file" "$tree/m/$module.ko" ;;
  esac
done
cat > "$tree/init" <<I
#!/bin/busybox sh
b=/bin/busybox; \$b mkdir -p /proc /sys /dev /tmp
\$b mount -t proc proc /proc; \$b mount -t sysfs s /sys; \$b mount -t devtmpfs dev /dev; \$b mount -t tmpfs t /tmp
for m in $order; do \$b insmod /m/\$m.ko; done
I
cat >> "$tree/init" <<'I'
$b --install -s /bin; export PATH=/bin
while ! [ -b /dev/vda ]; do usleep 1000; done
# The device is there before it can be opened, and a failed exec would end this shell.
until (: <>/dev/vport0p1) 2>/dev/null; do usleep 1000; done
exec 3<>/dev/vport0p1
echo up >&3
while read -r line <&3; do r=$(eval "$line" 2>&1 | tr '\n' ' '); echo "$r" >&3; done
I
chmod +x "$tree/init"
(cd "$tree" && find . | cpio -o -H newc 2>/dev/null | gzip -1 > ../initramfs.gz)
rm -rf "$tree"
