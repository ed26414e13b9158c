#!/usr/bin/env python3
"""Makes the GGUF files that gguf_models_test and compare_llama.py read, with llama.cpp's own converter
and quantiser, and prints their folder. What is there already stays.

  tests/gguf/make_gguf.py --models "$(scripts/real_models.sh)"

The first run installs and builds the tools (toolchain.py): a quarter of an hour on two idle cores.
"""

import argparse
import os
import pathlib
import subprocess
import sys

from toolchain import Toolchain, default_folder

# Names of llama.h's llama_ftype; F32 is what the converter writes.
FTYPES = {"F16": 1, "BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_K_M": 15}

# File name without type: folder of the model, options of the converter, types.
FILES = {
    "all-MiniLM-L6-v2": ("all-MiniLM-L6-v2", [], list(FTYPES)),
    "embeddinggemma-300m": ("embeddinggemma-300m", [], list(FTYPES)),
    "embeddinggemma-300m-dense": ("embeddinggemma-300m", ["--sentence-transformers-dense-modules"],
                                  ["Q8_0", "Q4_0"]),
}


def convert(tools, model, options, target):
    # Without its sentencepiece file the converter would silently write another kind of vocabulary.
    if "embeddinggemma" in model.name and not (model / "tokenizer.model").exists():
        raise SystemExit(f"{model} lacks tokenizer.model, which the converter needs")
    partial = target.with_suffix(".partial")
    subprocess.run([tools.python, tools.converter, model, "--outtype", "f32", "--outfile", partial,
                    *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    partial.rename(target)


def quantise(library, source, target, ftype):
    import ctypes
    params = library.llama_model_quantize_default_params()
    params.ftype = ftype
    params.nthread = os.cpu_count()
    partial = target.with_suffix(".partial")
    code = library.llama_model_quantize(str(source).encode(), str(partial).encode(),
                                        ctypes.byref(params))
    if code != 0:
        raise SystemExit(f"llama_model_quantize({source}, ftype {ftype}) returned {code}")
    partial.rename(target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=pathlib.Path, required=True,
                        help="folder that holds the models by name (scripts/real_models.sh)")
    parser.add_argument("--folder", type=pathlib.Path, default=default_folder())
    args = parser.parse_args()
    tools = Toolchain(args.folder)
    tools.make()
    tools.enter()
    from llama_model import silence
    library = tools.binding()
    silence(library)
    for name, (model, options, types) in FILES.items():
        source = args.folder / f"{name}-F32.gguf"
        if not source.exists():
            print(f"converting {source.name}", file=sys.stderr)
            convert(tools, args.models / model, options, source)
        for type_name in types:
            target = args.folder / f"{name}-{type_name}.gguf"
            if not target.exists():
                print(f"quantising {target.name}", file=sys.stderr)
                quantise(library, source, target, FTYPES[type_name])
    print(args.folder)


if __name__ == "__main__":
    main()
