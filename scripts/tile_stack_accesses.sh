#!/bin/sh
# tile_stack_accesses.sh LIMIT OBJECT...: counts the vector loads and stores on the stack in every register
# tile (RunTile) of the given object files and fails where one has more than LIMIT.
#
# A tile keeps all its accumulators in registers. A compiler that moves them through the stack computes
# the same numbers at half the speed, so no other test would notice.
set -eu
[ $# -gt 1 ] || { echo "usage: $0 LIMIT OBJECT..." >&2; exit 2; }
limit=$1
shift
status=0
for object in "$@"; do
  objdump -d --no-show-raw-insn -C "$object" | awk -v limit="$limit" -v object="$object" '
    /^[0-9a-f]+ <.*>:$/ { name = $0; tile = name ~ /RunTile</; tiles += tile }
    # vmovq moves addresses for which no general register was left; (%rbp, with an index is no place on the stack.
    tile && /[xyz]mm/ && /\(%r[sb]p\)/ && !/vmovq/ { count[name]++ }
    END {
      if (tiles == 0) { print object ": no register tile found"; exit 1 }
      for (name in count) {
        if (count[name] > limit) { print object ": " count[name] " in " name; bad = 1 }
      }
      exit bad
    }' || status=1
done
exit $status
