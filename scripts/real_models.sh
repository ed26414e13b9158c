#!/usr/bin/env bash
# real_models.sh [NAME...]: pulls real models into the cache and prints a folder that holds them by name,
# for PERGOLA_REAL_MODELS. Default: all-MiniLM-L6-v2 embeddinggemma-300m. PERGOLA names the binary.
set -euo pipefail
cd "$(dirname "$0")/.."
pergola=${PERGOLA:-build/release/pergola}
folder=${PERGOLA_HOME:-$HOME/.cache/pergola}/by-name
mkdir -p "$folder"
(($#)) || set -- all-MiniLM-L6-v2 embeddinggemma-300m
for name in "$@"; do
  path=$("$pergola" pull --quiet "$name")
  ln -sfn "$path" "$folder/$name"
done
echo "$folder"
