#!/usr/bin/env python3
"""Small files as the formats' own Python packages write them; src/formats/golden_test.cc knows what is in.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install gguf==0.19.0 safetensors==0.8.0
    /tmp/venv/bin/python tests/golden/formats/make_format_goldens.py
"""

import json
import pathlib
from importlib.metadata import version

import gguf
import numpy as np
from safetensors.numpy import save_file


def tensors():
    return {
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
        "halves": np.array([0.5, -2, 65504], dtype=np.float16),
        "bytes": np.array([[-128, 127]], dtype=np.int8),
        "words": np.array([7, -7], dtype=np.int32),
    }


def write_gguf(path):
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_custom_alignment(64)
    writer.add_uint8("t.u8", 255)
    writer.add_int8("t.i8", -128)
    writer.add_uint16("t.u16", 65535)
    writer.add_int16("t.i16", -32768)
    writer.add_uint32("t.u32", 4294967295)
    writer.add_int32("t.i32", -2147483648)
    writer.add_uint64("t.u64", 18446744073709551615)
    writer.add_int64("t.i64", -9223372036854775808)
    writer.add_float32("t.f32", 0.1)
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.bool", True)
    writer.add_string("t.string", "grüße")
    writer.add_array("t.strings", ["a", "", "ü"])
    writer.add_array("t.ints", [1, -2, 3])
    writer.add_array("t.floats", [0.5, -1.5])
    writer.add_array("t.bools", [True, False])
    writer.add_array("t.nested", [[1, 2], [3]])
    for name, values in tensors().items():
        writer.add_tensor(name, values)
    quantised = gguf.quants.quantize(np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32),
                                     gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("q8", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("long", np.array([1 << 40], dtype=np.int64))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = pathlib.Path(__file__).parent
    write_gguf(folder / "python.gguf")
    everything = tensors() | {"long": np.array([1 << 40], dtype=np.int64),
                              "scalar": np.array(1.5, dtype=np.float32)}
    save_file(everything, folder / "python.safetensors", metadata={"format": "np", "key": "grüße \"x\""})
    manifest = {
        "script": "make_format_goldens.py",
        "gguf": version("gguf"),
        "safetensors": version("safetensors"),
        "numpy": version("numpy"),
        "bound": "equal",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
