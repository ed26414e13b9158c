#!/usr/bin/env python3
"""Random values and the blocks that the Python package `gguf` makes of them.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install gguf==0.19.0
    /tmp/venv/bin/python tests/golden/quant/make_encode_goldens.py

Writes encode.f32 (96 blocks of 32 values, little-endian), encode.Q8_0 and encode.Q4_0 (the blocks) and
encode_manifest.json. Among the blocks: zeros, one value alone, equal magnitudes of both signs, scales down
to subnormals of f16, values that halve a step.
"""

import hashlib
import json
import pathlib
from importlib.metadata import version

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import quantize

SEED = 20261130


def main():
    folder = pathlib.Path(__file__).resolve().parent
    rng = np.random.default_rng(SEED)
    values = rng.standard_normal((96, 32), dtype=np.float32)
    values *= np.exp2(rng.integers(-30, 8, (96, 1))).astype(np.float32)
    values[0] = 0
    values[1] = 0
    values[1, 7] = -3.5
    values[2] = np.where(rng.integers(0, 2, 32) == 1, 1.25, -1.25)
    values[3] = np.arange(-15.5, 16.5, dtype=np.float32) / 127 * 8
    values[4] = np.arange(32, dtype=np.float32) * 0.5 - 8
    values = values.astype("<f4")
    files = {"encode.f32": values.tobytes()}
    for name in ("Q8_0", "Q4_0"):
        files[f"encode.{name}"] = quantize(values, GGMLQuantizationType[name]).tobytes()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "encode_manifest.json").write_text(json.dumps({
        "script": "make_encode_goldens.py", "seed": SEED, "gguf": version("gguf"),
        "numpy": np.__version__, "bound": "bit-equal",
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}},
        indent=1) + "\n")


if __name__ == "__main__":
    main()
