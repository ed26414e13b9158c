#!/bin/sh
# isa_symbols.sh OBJECT...: checks the object files of one instruction set each (src/kernels/cpu/isa).
#
# Each must define exactly one global symbol, its kernel table, and no weak or unique one: the linker may
# keep any object's copy of a weak function, and then a CPU without AVX-512 runs code that was built for
# it. Prints the offending symbols and exits 1.
set -eu
[ $# -gt 0 ] || { echo "usage: $0 OBJECT..." >&2; exit 2; }
status=0
for object in "$@"; do
  symbols=$(nm --defined-only -C "$object")
  weak=$(printf '%s\n' "$symbols" | awk '$2 ~ /^[WwVvu]$/')
  global=$(printf '%s\n' "$symbols" | awk '$2 ~ /^[TDRBGSC]$/')
  if [ -n "$weak" ]; then
    printf '%s defines weak symbols:\n%s\n' "$object" "$weak"
    status=1
  fi
  if [ "$(printf '%s' "$global" | grep -c .)" -ne 1 ]; then
    printf '%s must define one global symbol, defines:\n%s\n' "$object" "$global"
    status=1
  fi
done
exit $status
