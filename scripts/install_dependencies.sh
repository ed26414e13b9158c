#!/usr/bin/env bash
# install_dependencies.sh [--tests|--arm64|--callgrind|--simde]: installs with apt what building Pergola needs (Debian 12, Ubuntu
# 24.04) and, with --tests, what its tests and checks need too, or with --arm64 what the cross build for ARM64
# and its tests under qemu need, or with --callgrind what counting instructions needs, or with --simde what the
# AVX-512 kernels on AVX2 need. Does nothing when all is there.
set -euo pipefail

# The versioned Boost: Debian 12's unversioned packages are 1.74, too old for coroutines in Beast.
# The run-time library of the sanitizers and of libFuzzer comes with the distribution's own clang.
source /etc/os-release
case "$ID" in
  ubuntu) boost=libboost1.83-dev clang_runtime=libclang-rt-18-dev ;;
  *) boost=libboost1.81-dev clang_runtime=libclang-rt-14-dev ;;
esac

packages=(g++ cmake ninja-build ccache pkg-config git ca-certificates curl python3 python3-pip
  "$boost" libssl-dev openssl zlib1g-dev libcurl4-openssl-dev libsimdjson-dev libcli11-dev libxxhash-dev
  prometheus-cpp-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc)
if [[ "${1:-}" == --tests ]]; then
  packages+=(libgtest-dev libbenchmark-dev clang clang-format binutils python3-venv "$clang_runtime")
elif [[ "${1:-}" == --callgrind ]]; then
  packages+=(valgrind)
elif [[ "${1:-}" == --simde ]]; then
  packages+=(libsimde-dev binutils)
elif [[ "${1:-}" == --arm64 ]]; then
  packages+=(g++-aarch64-linux-gnu qemu-user googletest)
  "$(dirname "$0")/arm64_sysroot.sh" "${PERGOLA_HOME:-$HOME/.cache/pergola}/arm64"
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
((${#missing[@]})) || exit 0

# Reads apt's status lines (dlstatus:2:13.5:Retrieving file 2 of 9) and draws one line of progress on a terminal.
show_progress() {
  local kind subject percent what
  while IFS=: read -r kind subject percent what; do
    [[ -t 2 && ( $kind == dlstatus || $kind == pmstatus ) ]] &&
      printf '\r\e[K%3d %%  %.60s' "${percent%%.*}" "$what" >&2
  done
  [[ ! -t 2 ]] || printf '\r\e[K' >&2
}

as_root=()
((EUID == 0)) || as_root=(sudo)
if ((EUID != 0)) && ! command -v sudo >/dev/null; then
  echo "no sudo here; as root, run: apt-get update && apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing with apt, which takes a minute or two: ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  -o APT::Status-Fd=1 "${missing[@]}" | show_progress
