# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by the scripts beside it; sourced, not run. Sets ROOT and the functions below.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
STARTED=$SECONDS
LOGS=$ROOT/build/log

elapsed() { printf '%d:%02d' $(((SECONDS - STARTED) / 60)) $(((SECONDS - STARTED) % 60)); }
say() { printf '[%s] %s\n' "$(elapsed)" "$*"; }
die() {
  printf '[%s] error: %s\n' "$(elapsed)" "$*" >&2
  exit 1
}

need_root() { [ "$(id -u)" -eq 0 ] || die "$0 needs root: it installs packages, and the platform makes namespaces and cgroups"; }

# What to show of the log of something that failed: of ctest, the output of the tests that failed and their names.
end_of() {
  local summary
  summary=$(grep -an ' tests failed out of ' "$1" | tail -n 1 | cut -d: -f1) || true
  if [ -z "$summary" ]; then
    tail -n 40 "$1"
  else
    sed -n '/\*\*\*/,/^ *Start /p' "$1" | grep -av '^ *Start ' | tail -n 150
    tail -n "+$summary" "$1" | grep -av -e '^Label Time' -e 'sec\*proc'
  fi
}

# step NAME TITLE COMMAND...: runs the command with its output in build/log/NAME.log. While it runs, shows the newest line of
# the log every 10 seconds; when it fails, the end of it. Returns the command's status.
step() {
  local name=$1 title=$2 log status=0 pid waited=0 last
  shift 2
  mkdir -p "$LOGS"
  log=$LOGS/$name.log
  say "$title"
  "$@" >"$log" 2>&1 </dev/null 9>&- & # 9: a lock that a left-over process must not keep
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    waited=$((waited + 1))
    if [ $((waited % 50)) -eq 0 ]; then
      last=$(tail -c 400 "$log" | tr '\r' '\n' | grep -av '^[[:space:]]*$' | tail -n 1 | cut -c 1-110) || true
      say "  ... ${last:-still running}"
    fi
  done
  wait "$pid" || status=$?
  if [ "$status" -ne 0 ]; then
    printf -- '----- the end of %s\n' "${log#"$ROOT"/}" >&2
    end_of "$log" >&2
    printf -- '-----\n' >&2
  fi
  return "$status"
}

# build PRESET: configures when there is something new to configure, and builds.
build() {
  local preset=$1
  step "configure-$preset" "configuring ($preset)" cmake --preset "$preset" ||
    die "configuring failed"
  step "build-$preset" "building ($preset; the first time takes minutes)" cmake --build --preset "$preset" ||
    die "the build failed"
}

# build_template BIN_DIR NAME: build/templates/NAME, with the daemon of that folder. An unchanged recipe keeps its disk: only
# kernel and initramfs are made anew, in a fraction of a second.
build_template() {
  step "template-$2" "making the template $2 (the first time fetches packages)" \
    "$1/space-node" build-template --recipe "templates/$2.toml" --out "build/templates/$2" --cache build/cache --spaced "$1/spaced" ||
    die "building the template $2 failed"
}
