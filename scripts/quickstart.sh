#!/usr/bin/env bash
# quickstart.sh [MODEL]: from a fresh clone to a server that answers: installs what is missing, builds,
# pulls the model (all-MiniLM-L6-v2 by default), embeds one sentence, then serves on port 42666.
# PERGOLA_PORT chooses another port.
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:-all-MiniLM-L6-v2}
port=${PERGOLA_PORT:-42666}

scripts/install_dependencies.sh
cmake --preset release >/dev/null
cmake --build --preset release
pergola=build/release/pergola

"$pergola" pull "$model"
echo "Embedding one sentence:" >&2
row=$("$pergola" embed --model "$model" "A pergola carries the vine.")
echo "${row:0:120}..."
cat >&2 <<EOF

Serving. In another terminal:

  curl http://127.0.0.1:$port/v1/embeddings -H 'Content-Type: application/json' \\
    -d '{"model": "$model", "input": "A pergola carries the vine."}'

or open http://127.0.0.1:$port/docs
EOF
exec "$pergola" serve --model "$model" --port "$port"
