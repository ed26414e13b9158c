#!/usr/bin/env python3
"""Compares Pergola's vectors with llama.cpp's own on the same GGUF files, text by text, and with --time
their speed. The files and tools are those of make_gguf.py.

  tests/gguf/compare_llama.py                        # cosines on all golden texts
  tests/gguf/compare_llama.py --isa avx2 --files all-MiniLM-L6-v2-F32
  tests/gguf/compare_llama.py --time --benchmark build/dev/engine_benchmark

Both get the reference library's ids; how often llama.cpp's own tokenizer differs from them is printed.
Ends with "N passed, N failed".
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

from toolchain import Toolchain, default_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
LENGTHS = (8, 32, 128, 512)
SECONDS = 0.4  # of one measurement; the shortest pass counts


def bounds(file):
    """Least cosine of any text, and in the mean. llama.cpp rounds activations to 8 bits where weights are
    quantised, over 256 values at a time for the K types: as it runs all-MiniLM-L6-v2-Q4_K_M it is 0.99815
    (mean 0.99941) from the same weights widened to f32, Pergola 0.9999999; embeddinggemma-300m-dense-Q8_0,
    whose Dense layers magnify it, is 0.99739. So these bounds are its own."""
    if file.endswith("-F32"):
        return 0.99999, 0.99999
    if "-dense-" in file:
        return 0.997, 0.9995
    return (0.9975, 0.999) if "_K" in file else (0.998, 0.9995)


def golden_folder(file):
    return GOLDEN / ("all-MiniLM-L6-v2" if file.startswith("all-MiniLM-L6-v2") else "embeddinggemma-300m")


def golden_of(file):
    lines = (golden_folder(file) / "tokens.jsonl").read_text().splitlines()
    texts = json.loads((GOLDEN / "texts.json").read_text())
    texts = texts if isinstance(texts, list) else texts["texts"]
    return [(entry["text"], json.loads(line)["ids"]) for entry, line in zip(texts, lines, strict=True)]


def pergola_vectors(binary, path, texts, isa):
    import numpy
    environment = dict(os.environ, **({"PERGOLA_FORCE_ISA": isa} if isa else {}))
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "texts.jsonl"
        rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        out = pathlib.Path(folder) / "rows.f32"
        subprocess.run([binary, "embed", "--model", path, "--input", rows, "--format", "f32",
                        "--no-truncate", "--output", out], check=True, env=environment,
                       stderr=subprocess.DEVNULL)
        return numpy.fromfile(out, dtype="<f4").reshape(len(texts), -1)


def cosines(a, b):
    import numpy
    a, b = a.astype(numpy.float64), b.astype(numpy.float64)
    return (a * b).sum(1) / numpy.linalg.norm(a, axis=1) / numpy.linalg.norm(b, axis=1)


def llama_errs(file, texts, ours, theirs, least):
    """Which texts of an F32 file llama.cpp itself gets wrong by more than the bound (it rounds keys,
    values and the argument of GELU to 16 bits) while Pergola agrees with the reference library."""
    import numpy
    folder = golden_folder(file)
    pooled = folder.name == "embeddinggemma-300m" and "-dense-" not in file
    reference = numpy.fromfile(folder / ("pooled.f32" if pooled else "vectors.f32"), dtype="<f4")
    reference = reference.reshape(-1, ours.shape[1])[texts]
    return (cosines(theirs, reference) < least) & (cosines(ours, reference) >= least)


def compare(library, args, file):
    import numpy
    from llama_model import LlamaModel
    path = args.folder / f"{file}.gguf"
    llama = LlamaModel(library, path, threads=1)
    texts, vectors, other_ids = [], [], 0
    golden = golden_of(file)
    for index, (text, ids) in enumerate(golden):
        # Too long for the model, or with an id that the reference has no vector for.
        if len(ids) > llama.max_tokens or max(ids) >= 262144:
            continue
        other_ids += llama.tokenize(text) != ids
        texts.append(index)
        vectors.append(llama.encode(ids))
    llama.close()
    theirs = numpy.stack(vectors)
    ours = pergola_vectors(args.pergola, path, [golden[index][0] for index in texts], args.isa)
    cosine = cosines(ours, theirs)
    least, mean = bounds(file)
    wrong = numpy.zeros(len(texts), bool)
    if file.endswith("-F32"):
        wrong = llama_errs(file, texts, ours, theirs, least)
        cosine = cosine[~wrong]
    good = cosine.min() >= least and cosine.mean() >= mean and wrong.sum() <= len(texts) // 50
    print(f"{'ok  ' if good else 'FAIL'} {file}: {len(cosine)} texts, cosine least {cosine.min():.7f} "
          f"mean {cosine.mean():.7f}; llama.cpp's own ids differ on {other_ids}, its vectors are wrong "
          f"on {wrong.sum()}", flush=True)
    return good


def pergola_times(args, path, threads):
    """{tokens: seconds of the shortest pass} of one text, by the project's benchmark."""
    environment = dict(os.environ, PERGOLA_BENCHMARK_MODEL=str(path))
    result = subprocess.run(
        [args.benchmark, f"--benchmark_filter=BM_Encode/.*/threads:{threads}/", "--benchmark_format=json",
         f"--benchmark_min_time={SECONDS}"], check=True, env=environment, capture_output=True)
    times = {}
    return {int(row["name"].split("tokens:")[1].split("/")[0]): row["best_s"]
            for row in json.loads(result.stdout)["benchmarks"]}


def llama_times(library, path, threads):
    from llama_model import LlamaModel
    llama = LlamaModel(library, path, threads)
    times = {}
    for tokens in LENGTHS:
        ids = [1000 + 7919 * position % 20000 for position in range(tokens)]
        llama.encode(ids)
        passes, began = [], time.perf_counter()
        while len(passes) < 2 or time.perf_counter() - began < SECONDS:
            start = time.perf_counter()
            llama.encode(ids)
            passes.append(time.perf_counter() - start)
        times[tokens] = min(passes)
    llama.close()
    return times


def measure(library, args, file, threads):
    """The shortest pass of several interleaved rounds: a row of the table per length."""
    path = args.folder / f"{file}.gguf"
    ours, theirs = {}, {}
    for _ in range(args.rounds):
        for best, now in ((ours, pergola_times(args, path, threads)),
                          (theirs, llama_times(library, path, threads))):
            for tokens, seconds in now.items():
                best[tokens] = min(best.get(tokens, seconds), seconds)
    for tokens in LENGTHS:
        print(f"| {file} | {threads} | {tokens} | {tokens / ours[tokens]:.0f} | "
              f"{tokens / theirs[tokens]:.0f} | {theirs[tokens] / ours[tokens]:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=default_folder())
    parser.add_argument("--files", nargs="+", help="names without .gguf; default: all")
    parser.add_argument("--pergola", type=pathlib.Path, default=ROOT / "build" / "release" / "pergola")
    parser.add_argument("--isa", help="Pergola's instruction set (PERGOLA_FORCE_ISA)")
    parser.add_argument("--time", action="store_true", help="print a table of speeds instead")
    parser.add_argument("--benchmark", type=pathlib.Path, default=ROOT / "build" / "dev" / "engine_benchmark")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    tools = Toolchain(args.folder)
    tools.make()
    tools.enter()
    library = tools.binding()
    files = args.files or sorted(path.stem for path in args.folder.glob("*.gguf"))
    if args.time:
        print("| file | threads | tokens | Pergola, tokens/s | llama.cpp, tokens/s | ratio |")
        print("|---|---|---|---|---|---|")
        for file in files:
            for threads in (1, 2):
                measure(library, args, file, threads)
        return
    results = [compare(library, args, file) for file in files]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    raise SystemExit(not all(results))


if __name__ == "__main__":
    main()
