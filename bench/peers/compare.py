#!/usr/bin/env python3
"""Pergola and its peers on the same texts, threads and machine, in one run; see run.sh.

Engines take turns, round by round, each in a process of its own; a cell's figure is its best round, so a
neighbour's burst hits nobody for good. Every cell's vectors are compared: the least cosine to Pergola's of the
same weights in f32 stands in the table. JSON lines to --json, a markdown table to stdout.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy

from arguments import integers, parser_of

HERE = pathlib.Path(__file__).resolve().parent
MINILM = "all-MiniLM-L6-v2"
GEMMA = "embeddinggemma-300m"


def line_up(args):
    """{title: (truth, [(engine, variant, path)])}; Pergola first, then who runs the same or the same model."""
    onnx = args.home / "peers" / MINILM
    gguf = args.home / "gguf"
    minilm = {
        "f32": [("pergola", "f32", MINILM), ("onnxruntime", "f32", onnx / "fused.onnx"),
                ("openvino", "f32", onnx / "plain.onnx"), ("llama.cpp", "F32", gguf / f"{MINILM}-F32.gguf")],
        "8 bit": [("pergola", "int8", MINILM), ("pergola", "Q8_0", gguf / f"{MINILM}-Q8_0.gguf"),
                  ("onnxruntime", "int8", onnx / "int8.onnx"),
                  ("llama.cpp", "Q8_0", gguf / f"{MINILM}-Q8_0.gguf")],
        "bf16": [("pergola", "BF16", gguf / f"{MINILM}-BF16.gguf"),
                 ("llama.cpp", "BF16", gguf / f"{MINILM}-BF16.gguf")],
    }
    lines = {f"{MINILM} {name}": (gguf / f"{MINILM}-F32.gguf", engines) for name, engines in minilm.items()}
    for kind in ("Q4_0", "Q8_0", "BF16", "F32"):
        path = gguf / f"{GEMMA}-{kind}.gguf"
        # Rounded to 4 bits without training it is another model: there the same weights in f32 are the truth.
        truth = path if kind == "Q4_0" else gguf / f"{GEMMA}-F32.gguf"
        lines[f"{GEMMA} {kind}"] = (truth, [("pergola", kind, path), ("llama.cpp", kind, path)])
    if args.isa:  # the others choose their instructions themselves
        lines = {title: (truth, [engine for engine in engines if engine[0] in ("pergola", "llama.cpp")])
                 for title, (truth, engines) in lines.items()}
    return {title: line for title, line in lines.items() if args.only in title}


def pergola_cells(args, path, threads, seconds, extra):
    command = [args.pergola, "bench", "engine", "--model", path, "--lengths", ",".join(map(str, args.lengths)),
               "--batch", ",".join(map(str, args.batch)), "--threads", str(threads), "--seconds", str(seconds),
               "--json", "--vectors", *extra]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return cells_of(done.stdout)


def cells_of(lines):
    return {(cell["length"], cell["batch"]): cell for cell in map(json.loads, lines.splitlines())}


def truth_of(args, path):
    """The cells in f32, checked against the reference kernels: some minutes where texts are long."""
    cells = f"{args.lengths}-{args.batch}".replace(" ", "")
    kept = args.truths and args.truths / f"{path.name}-{path.stat().st_mtime_ns}-{cells}.jsonl"
    if kept and kept.exists():
        return cells_of(kept.read_text())
    cells = pergola_cells(args, path, max(args.threads), 0.001, ["--activations", "f32"])
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("".join(json.dumps(cell) + "\n" for cell in cells.values()))
    return cells


def peer_cells(engine, path, threads, seconds, texts):
    worker = subprocess.Popen([sys.executable, HERE / "worker.py", engine, path, str(threads)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    cells = {}
    for key, ids in texts.items():
        worker.stdin.write(json.dumps({"texts": ids, "seconds": seconds}) + "\n")
        worker.stdin.flush()
        answer = json.loads(worker.stdout.readline() or "null")
        if answer is not None:
            cells[key] = answer
    worker.stdin.close()
    worker.wait()
    return cells


def least_cosine(rows, truth):
    a, b = numpy.array(rows, dtype=numpy.float64), numpy.array(truth, dtype=numpy.float64)
    return float(((a * b).sum(1) / numpy.linalg.norm(a, axis=1) / numpy.linalg.norm(b, axis=1)).min())


def measure(args, title, truth, engines):
    """All cells of one line-up: [{engine, variant, threads, length, batch, tokens_per_s, ms_p50, cosine}]."""
    texts = {key: [text["ids"] for text in cell["texts"]] for key, cell in truth.items()}
    results = []
    for threads in args.threads:
        best = {}
        for _ in range(args.rounds):
            for engine, variant, path in engines:
                if engine == "pergola":
                    weights = ["--weights", "int8"] if variant == "int8" else []
                    cells = pergola_cells(args, path, threads, args.seconds, ["--unchecked", *weights])
                else:
                    cells = peer_cells(engine, path, threads, args.seconds, texts)
                for key, cell in cells.items():
                    rows = cell.pop("rows", None) or [text["vector"] for text in cell.pop("texts")]
                    known = best.get((engine, variant, *key))
                    if known is None or known["tokens_per_s"] < cell["tokens_per_s"]:
                        cosine = least_cosine(rows, [text["vector"] for text in truth[key]["texts"]])
                        best[engine, variant, *key] = {
                            "table": title, "engine": engine, "variant": variant, "threads": threads,
                            "length": key[0], "batch": key[1], "tokens_per_s": round(cell["tokens_per_s"], 1),
                            "ms_p50": round(cell["ms_p50"], 3), "cosine": round(cosine, 6)}
        results += best.values()
    return results


def print_table(title, results):
    names = list(dict.fromkeys((cell["engine"], cell["variant"]) for cell in results))
    print(f"\n### {title}: tokens/s (least cosine)\n")
    print("| threads | batch | length | " + " | ".join(f"{engine} {variant}" for engine, variant in names) +
          " | to the best peer |\n|" + "---|" * (len(names) + 4))
    for threads, batch, length in sorted({(c["threads"], c["batch"], c["length"]) for c in results}):
        row = {(c["engine"], c["variant"]): c for c in results
               if (c["threads"], c["batch"], c["length"]) == (threads, batch, length)}
        peers = [c["tokens_per_s"] for (engine, _), c in row.items() if engine != "pergola"]
        ratio = f"{row[names[0]]['tokens_per_s'] / max(peers):.2f}" if peers else "-"
        shown = [f"{row[n]['tokens_per_s']:.0f} ({row[n]['cosine']:.5f})" if n in row else "-" for n in names]
        print(f"| {threads} | {batch} | {length} | " + " | ".join(shown) + f" | {ratio} |", flush=True)


def main():
    parser = parser_of(__doc__, "line-ups whose title", [8, 32, 128, 256], "of a cell in a round")
    parser.add_argument("--batch", type=integers, default=[1, 32])
    parser.add_argument("--threads", type=integers, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="where the cells go, a JSON line each")
    parser.add_argument("--truths", type=pathlib.Path,
                        help="a folder that keeps texts and true vectors for further runs of the same cells and files")
    parser.add_argument("--isa", choices=["avx2"],
                        help="hold Pergola and llama.cpp, its only peer then, to an older machine's instructions")
    args = parser.parse_args()
    if args.isa:
        os.environ["PERGOLA_FORCE_ISA"] = os.environ["LLAMA_CPP_ISA"] = args.isa
        sys.path.insert(0, str(HERE.parents[1] / "tests" / "gguf"))
        from toolchain import Toolchain, default_folder
        Toolchain(default_folder(), args.isa).make_library()
    hardware = subprocess.run([args.pergola, "bench", "hw", "--json"], check=True, capture_output=True, text=True)
    print("load average", *os.getloadavg(), "\n\n    " + hardware.stdout.strip(), flush=True)
    cells, truths = [], {}
    for title, (path, engines) in line_up(args).items():
        if path not in truths:
            truths[path] = truth_of(args, path)
        cells.append(measure(args, title, truths[path], engines))
        print_table(title, cells[-1])
    if args.json:
        args.json.write_text("".join(json.dumps(cell) + "\n" for table in cells for cell in table))


if __name__ == "__main__":
    main()
