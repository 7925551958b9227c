// SPDX-License-Identifier: Apache-2.0
#include "bench/bare_guest.h"

#include <cerrno>
#include <thread>

#include "lib/os/file.h"
#include "lib/os/unix_socket.h"

namespace space::bench {

Result<std::unique_ptr<BareGuest>> BareGuest::start(const std::string& directory, const std::string& kernel,
                                                    const std::string& initramfs,
                                                    const std::string& acceleration) {
  std::unique_ptr<BareGuest> guest(new BareGuest());
  std::string socket = directory + "/bare.sock";
  // The same machine as the platform's, without a disk.
  SPACE_TRY(guest->qemu_, Child::start({"qemu-system-x86_64",
                                        "-M",
                                        "microvm,accel=" + acceleration,
                                        "-cpu",
                                        acceleration == "kvm" ? "host" : "max",
                                        "-m",
                                        "512",
                                        "-nographic",
                                        "-nodefaults",
                                        "-no-user-config",
                                        "-no-reboot",
                                        "-serial",
                                        "null",
                                        "-monitor",
                                        "none",
                                        "-chardev",
                                        "socket,id=c0,path=" + socket + ",server=on,wait=off",
                                        "-device",
                                        "virtio-serial-device",
                                        "-device",
                                        "virtserialport,chardev=c0,name=space.0",
                                        "-kernel",
                                        kernel,
                                        "-initrd",
                                        initramfs,
                                        "-append",
                                        "quiet no_timer_check reboot=t panic=-1"},
                                       directory + "/bare.log"));
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    auto connected = os::connect_unix(socket);
    if (connected.ok()) {
      guest->port_ = std::move(*connected);
      break;
    }
    if (std::chrono::steady_clock::now() > deadline)
      return std::move(connected).error().context("the bare guest's channel");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  SPACE_TRY(std::string up, guest->read_line(std::chrono::seconds(60)));
  if (up != "up")
    return make_error(Code::kInternal, "bench.bare_guest", "the bare guest said something else than up");
  return guest;
}

Result<std::string> BareGuest::ask(const std::string& line) {
  SPACE_CHECK_OK(os::write_all(port_.get(), as_bytes(line + "\n")));
  return read_line(std::chrono::seconds(20));
}

Result<std::string> BareGuest::read_line(std::chrono::milliseconds limit) {
  return lines_.next(port_.get(), limit);
}

}  // namespace space::bench
