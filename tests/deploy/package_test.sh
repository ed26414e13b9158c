#!/usr/bin/env bash
# package_test.sh FOLDER: checks what scripts/package.sh put there, unpacked beside it; installs nothing.
set -euo pipefail
cd "$1"
sha256sum --check --quiet SHA256SUMS
deb=(pergola_*.deb)
tarball=(pergola_*.tar.gz)
((${#deb[@]} == 1 && ${#tarball[@]} == 1))
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
dpkg-deb -x "${deb[0]}" "$unpacked/deb"
mkdir "$unpacked/tarball"
tar -xzf "${tarball[0]}" -C "$unpacked/tarball" --strip-components=1
version=$(dpkg-deb -f "${deb[0]}" Version)
passed=0

# expect WHAT COMMAND...: fails the script when the command does.
expect() {
  local what=$1
  shift
  "$@" >/dev/null || { echo "not so: $what" && exit 1; }
  passed=$((passed + 1))
}

for root in "$unpacked/deb/usr" "$unpacked/tarball"; do
  for file in bin/pergola share/bash-completion/completions/pergola share/fish/vendor_completions.d/pergola.fish \
    lib/systemd/system/pergola-{serve,server,gateway}.service \
    share/doc/pergola/{copyright,README.md,docs/operating.md,examples/serve.toml,grafana/pergola.json}; do
    expect "$file in $root" test -s "$root/$file"
  done
  expect "the program runs" "$root/bin/pergola" version
  expect "bash knows the completions" bash -c "source '$root/share/bash-completion/completions/pergola' && complete -p pergola"
done
expect "the version is the program's" bash -c "'$unpacked/deb/usr/bin/pergola' version | grep -F '$version'"
expect "nothing lies outside /usr" test "$(ls "$unpacked/deb")" = usr
expect "dependencies name the C library" bash -c "dpkg-deb -f '${deb[0]}' Depends | grep libc6"
echo "$passed passed, 0 failed"
