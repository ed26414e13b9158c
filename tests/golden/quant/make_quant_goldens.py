#!/usr/bin/env python3
"""Random blocks of every quantised type and their values as the Python package `gguf` expands them.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install gguf==0.19.0
    /tmp/venv/bin/python tests/golden/quant/make_quant_goldens.py

Writes <type>.blocks (bytes) and <type>.f32 (little-endian bits) beside itself, and manifest.json. The
first blocks of a type are extremes: all bits clear, all quants set, zero, negative, smallest subnormal and
largest scales. No scale is infinite or NaN.
"""

import json
import pathlib

import numpy as np
from importlib.metadata import version
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Where a block keeps its f16 scales.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
EXTREMES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x7BFF, 0xFBFF, 0x3C00]
SEED = 20250607


def finite_halves(rng, count):
    bits = rng.integers(0, 1 << 16, count, dtype=np.uint16)
    return np.where((bits & 0x7C00) == 0x7C00, bits & 0xBFFF, bits).astype("<u2")


def blocks_of(name, rng):
    _, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    extremes = len(EXTREMES)
    blocks = rng.integers(0, 256, (extremes + 8, size), dtype=np.uint8)
    blocks[0] = 0
    blocks[1] = 255
    for place in SCALES[name]:
        values = finite_halves(rng, len(blocks))
        values[:extremes] = EXTREMES
        blocks[:, place:place + 2] = values.view(np.uint8).reshape(-1, 2)
    return blocks


def main():
    folder = pathlib.Path(__file__).parent
    rng = np.random.default_rng(SEED)
    for name in SCALES:
        blocks = blocks_of(name, rng)
        with np.errstate(over="ignore", invalid="ignore"):
            values = dequantize(blocks, GGMLQuantizationType[name])
        assert values.dtype == np.float32 and np.isfinite(values).all(), name
        (folder / f"{name}.blocks").write_bytes(blocks.tobytes())
        (folder / f"{name}.f32").write_bytes(values.astype("<f4").tobytes())
    manifest = {
        "script": "make_quant_goldens.py",
        "seed": SEED,
        "gguf": version("gguf"),
        "numpy": version("numpy"),
        "bound": "bit-equal",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
