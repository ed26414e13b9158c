#!/usr/bin/env bash
# arm64_sysroot.sh FOLDER: makes the folder in which the ARM64 cross build finds its third-party libraries:
# Debian's packages for that architecture, unpacked, not installed, so that the machine's own packages stay
# as they are and no root is needed. Does nothing when it is there.
set -euo pipefail
folder=$1
packages=(libsimdjson-dev libsimdjson14 libssl-dev libssl3)
source /etc/os-release
[[ $ID != ubuntu ]] || packages=(libsimdjson-dev libsimdjson19 libssl-dev libssl3t64)
[[ ! -e $folder/complete ]] || exit 0

# An apt of its own: its lists and its state know only this architecture.
mkdir -p "$folder"/apt/{state/lists/partial,cache/archives/partial,log} "$folder"/packages
touch "$folder/apt/state/status"
options=(-qq -o "Dir::State=$folder/apt/state" -o "Dir::State::status=$folder/apt/state/status"
  -o "Dir::Cache=$folder/apt/cache" -o "Dir::Log=$folder/apt/log" -o APT::Architecture=arm64
  -o APT::Architectures=arm64 -o APT::Sandbox::User=root)
apt-get "${options[@]}" update
(cd "$folder/packages" && apt-get "${options[@]}" download "${packages[@]}")
for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder"; done
rm -r "$folder/apt" "$folder/packages"
touch "$folder/complete"
