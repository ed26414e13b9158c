#!/usr/bin/env python3
"""The same search from Python with NumPy, through a running server and its OpenAI-style route.

    build/release/pergola serve --model all-MiniLM-L6-v2 &
    apt-cache dumpavail | examples/packages_to_jsonl.py > packages.jsonl
    examples/search_packages.py packages.jsonl "look at the colours of a picture on the command line"

Needs NumPy (Debian's python3-numpy). PERGOLA_URL names a server elsewhere, http://host:port.
"""
import base64
import json
import os
import sys
import urllib.request

try:
    import numpy
except ImportError:
    sys.exit("search_packages.py needs NumPy: apt-get install python3-numpy, or pip install numpy")

URL = os.environ.get("PERGOLA_URL", "http://127.0.0.1:42666") + "/v1/embeddings"
BATCH = 256


def embed(texts):
    """float32 [len(texts), width], unit length. base64 halves the bytes and needs no parsing."""
    body = {"model": "all-MiniLM-L6-v2", "input": texts, "encoding_format": "base64", "truncate": True}
    request = urllib.request.Request(URL, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        data = json.load(answer)["data"]
    return numpy.stack([numpy.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in data])


def main():
    packages_path, query = sys.argv[1:3]
    with open(packages_path) as lines:
        packages = [json.loads(line) for line in lines]
    texts = [package["text"] for package in packages]
    batches = []
    for begin in range(0, len(texts), BATCH):
        print(f"\r{begin} of {len(texts)} descriptions", end="", file=sys.stderr, flush=True)
        batches.append(embed(texts[begin:begin + BATCH]))
    print(file=sys.stderr)
    vectors = numpy.concatenate(batches)
    scores = vectors @ embed([query])[0]
    for row in numpy.argsort(-scores)[:10]:
        print(f"{scores[row]:.3f}  {packages[row]['name']:<28} {packages[row]['text'][:90]}")


main()
