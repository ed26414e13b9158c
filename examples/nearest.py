#!/usr/bin/env python3
"""nearest.py PACKAGES.jsonl VECTORS.npy QUERY.npy COUNT: prints the packages nearest to the query.

Vectors have unit length, so the inner product is the cosine. Needs NumPy if it is there; without it the
same is done slowly by the standard library.
"""
import ast
import json
import struct
import sys


def read_npy(path):
    """A two-dimensional little-endian float32 .npy file as (rows, width, memoryview of floats)."""
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise SystemExit(f"{path}: no .npy file")
        major, _ = file.read(2)
        size = struct.unpack("<H" if major == 1 else "<I", file.read(2 if major == 1 else 4))[0]
        header = ast.literal_eval(file.read(size).decode("latin-1"))
        if header["descr"] != "<f4" or header["fortran_order"]:
            raise SystemExit(f"{path}: expected row-major float32")
        rows, width = header["shape"]
        return rows, width, memoryview(file.read()).cast("f")


def scores_of(vectors_path, query_path):
    try:
        import numpy
        return (numpy.load(vectors_path, mmap_mode="r") @ numpy.load(query_path)[0]).tolist()
    except ImportError:
        rows, width, values = read_npy(vectors_path)
        query = read_npy(query_path)[2]
        return [sum(a * b for a, b in zip(values[row * width:(row + 1) * width], query))
                for row in range(rows)]


packages_path, vectors_path, query_path, count = sys.argv[1:]
scores = scores_of(vectors_path, query_path)
with open(packages_path) as lines:
    packages = [json.loads(line) for line in lines]
for row in sorted(range(len(scores)), key=lambda row: -scores[row])[:int(count)]:
    print(f"{scores[row]:.3f}  {packages[row]['name']:<28} {packages[row]['text'][:90]}")
