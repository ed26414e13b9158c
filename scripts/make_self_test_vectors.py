#!/usr/bin/env python3
"""Writes src/cli/self_test_vectors.cc: the reference vectors that `pergola doctor` compares with.

They are row 19 of tests/golden/<model>/vectors.f32, which the reference library made.
"""
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = {"all-MiniLM-L6-v2": 384, "embeddinggemma-300m": 768}
ROW = 19

lines = ["// Made by scripts/make_self_test_vectors.py; do not edit.", '#include "cli/self_test_vectors.h"', "",
         "namespace pergola::cli {", "namespace {", ""]
for model, width in MODELS.items():
    data = (ROOT / "tests/golden" / model / "vectors.f32").read_bytes()
    row = struct.unpack_from(f"<{width}f", data, ROW * width * 4)
    name = "k" + "".join(part.capitalize() for part in model.replace(".", "-").split("-"))
    lines.append(f"constexpr float {name}[{width}] = {{")
    text = [f"{value:.9g}" for value in row]
    text = [(value if any(c in value for c in ".e") else value + ".0") + "f" for value in text]
    lines += ["    " + ", ".join(text[begin:begin + 8]) + "," for begin in range(0, width, 8)]
    lines += ["};", ""]
lines += ["}  // namespace", "", "std::span<const float> SelfTestVector(std::string_view model) {"]
for model in MODELS:
    name = "k" + "".join(part.capitalize() for part in model.replace(".", "-").split("-"))
    lines.append(f'  if (model == "{model}") return {name};')
lines += ["  return {};", "}", "", "}  // namespace pergola::cli", ""]
(ROOT / "src/cli/self_test_vectors.cc").write_text("\n".join(lines))
