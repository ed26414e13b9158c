#!/usr/bin/env bash
# package.sh [FOLDER]: release build to a .deb and a tarball with SHA256SUMS, in FOLDER (build/packages).
# PERGOLA_BUILD names a build folder to take in place of build/release.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/packages}")
build=${PERGOLA_BUILD:-build/release}
if [[ -z ${PERGOLA_BUILD:-} ]]; then
  cmake --preset release >/dev/null
  cmake --build --preset release --target pergola
fi
mkdir -p "$folder"
rm -f "$folder"/pergola_*.{deb,tar.gz} "$folder/SHA256SUMS"
for generator in DEB TGZ; do
  prefix=/usr
  [[ $generator == DEB ]] || prefix=/
  cpack --config "$build/CPackConfig.cmake" -G "$generator" -B "$folder" \
    -D CPACK_PACKAGING_INSTALL_PREFIX="$prefix" >/dev/null
done
rm -rf "$folder/_CPack_Packages"
cd "$folder"
sha256sum pergola_*.deb pergola_*.tar.gz >SHA256SUMS
cat SHA256SUMS
