#!/usr/bin/env bash
# search_packages.sh QUERY [COUNT]: semantic search over the descriptions of all Debian packages.
#
# The first run embeds the descriptions (some 60,000, into package_vectors.npy in the cache folder; it can
# be interrupted and run again); later runs only embed the query.
#
#   examples/search_packages.sh "look at the colours of a picture on the command line"
set -euo pipefail
cd "$(dirname "$0")/.."
query=${1:?usage: search_packages.sh QUERY [COUNT]}
count=${2:-10}
pergola=${PERGOLA:-build/release/pergola}
model=${PERGOLA_MODEL:-all-MiniLM-L6-v2}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pergola-examples
mkdir -p "$cache"

# One line a package: {"name": "bash", "text": "GNU Bourne Again SHell. Bash is an ..."}
if [[ ! -s $cache/packages.jsonl ]]; then
  apt-cache dumpavail | python3 examples/packages_to_jsonl.py >"$cache/packages.jsonl.part"
  mv "$cache/packages.jsonl.part" "$cache/packages.jsonl"
fi
if [[ ! -s $cache/package_vectors.npy ]]; then
  "$pergola" embed --model "$model" --truncate --input "$cache/packages.jsonl" --field text \
    --format npy --output "$cache/package_vectors.npy" --resume
fi
"$pergola" embed --model "$model" --format npy --output "$cache/query.npy" "$query"
python3 examples/nearest.py "$cache/packages.jsonl" "$cache/package_vectors.npy" "$cache/query.npy" "$count"
