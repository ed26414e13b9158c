#!/usr/bin/env bash
# search_packages.sh QUERY [COUNT]: semantic search over the descriptions of all Debian packages.
#
# The first run embeds the descriptions (some 60,000: minutes; it can be interrupted and run again) and keeps the
# vectors in ~/.cache/pergola-examples; later runs only embed the query. Delete that folder to start anew.
# Needs scripts/quickstart.sh to have built build/release/pergola; PERGOLA names another binary.
#
#   examples/search_packages.sh "look at the colours of a picture on the command line"
set -euo pipefail
cd "$(dirname "$0")/.."
query=${1:?usage: search_packages.sh QUERY [COUNT]}
count=${2:-10}
pergola=${PERGOLA:-build/release/pergola}
model=${PERGOLA_MODEL:-all-MiniLM-L6-v2}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pergola-examples
vectors=$cache/package_vectors.${model//\//_}.npy
mkdir -p "$cache"

# One line a package: {"name": "bash", "text": "GNU Bourne Again SHell"}
if [[ ! -s $cache/packages.jsonl ]]; then
  apt-cache dumpavail | python3 examples/packages_to_jsonl.py >"$cache/packages.jsonl.part"
  if [[ ! -s $cache/packages.jsonl.part ]]; then
    echo "search_packages.sh: apt knows no packages; run apt-get update first" >&2
    exit 1
  fi
  mv "$cache/packages.jsonl.part" "$cache/packages.jsonl"
fi
# Into another name first: the file is a valid one while it grows, and must not be taken for the whole.
if [[ ! -s $vectors ]]; then
  "$pergola" embed --model "$model" --truncate --input "$cache/packages.jsonl" --field text \
    --format npy --output "$vectors.part" --resume
  mv "$vectors.part" "$vectors"
fi
"$pergola" embed --model "$model" --format npy --output "$cache/query.npy" "$query"
python3 examples/nearest.py "$cache/packages.jsonl" "$vectors" "$cache/query.npy" "$count"
