#!/bin/sh
# run.sh [compare.py's arguments], or run.sh --http [http_servers.py's arguments]: installs ONNX Runtime, OpenVINO and llama.cpp into an environment of their
# own (PERGOLA_HOME, default ~/.cache/pergola: peers-venv and gguf/toolchain, some 8 GB with torch, made once),
# exports the models for them and compares them with build/release/pergola. Delete the folders to be rid of it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
home=${PERGOLA_HOME:-$HOME/.cache/pergola}
python=$home/peers-venv/bin/python
if ! cmp -s "$here/requirements.txt" "$home/peers-venv/complete"; then
  python3 -m venv "$home/peers-venv"
  "$python" -m pip install -q -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$home/peers-venv/complete"
fi
"$python" -m pip freeze | grep -E '^(onnxruntime|openvino|torch|transformers|onnx|numpy)=='
grep -h '^LLAMA_CPP_PYTHON' "$root/tests/gguf/toolchain.py"
models=$("$root/scripts/real_models.sh")
"$root/tests/gguf/make_gguf.py" --models "$models" >&2  # files and libllama
if [ "${1:-}" = --http ]; then
  shift
  exec "$python" "$here/http_servers.py" --models "$models" "$@"
fi
if [ ! -e "$home/peers/all-MiniLM-L6-v2/int8.onnx" ]; then
  "$python" "$here/export_onnx.py" "$models/all-MiniLM-L6-v2" "$home/peers/all-MiniLM-L6-v2" >&2
fi
exec "$python" "$here/compare.py" "$@"
