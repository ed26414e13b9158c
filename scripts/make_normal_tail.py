#!/usr/bin/env python3
"""Writes src/kernels/cpu/vec/normal_tail-inl.h: the normal distribution's tail in pieces.

    python3 -m venv venv && venv/bin/pip install mpmath numpy
    venv/bin/python scripts/make_normal_tail.py src/kernels/cpu/vec/normal_tail-inl.h

A polynomial for each quarter of [0, 7.875), its relative error driven towards equal ripples by reweighted least
squares. Prints the error of each piece in units of 2^-23.
"""

import sys

import mpmath
import numpy

DEGREE = 5
PIECES = 32
WIDTH = 0.25
EPSILON = 2.0**-23

HEAD = """// Written by scripts/make_normal_tail.py.
//
// Phi(-z), the upper tail of the normal distribution, for z in [0, 7.875) to {last:.0f} epsilon for z below
// {limit}, where this is used for its own sake; beyond, to {worst:.0f} epsilon. Piece i is a polynomial in z - i / 4.
#pragma once

namespace {{

constexpr float kNormalTailPieces = 4;  // of a unit
constexpr float kLargestNormalTail = {largest};
// Below the negative of this GELU has a formula that keeps its relative error.
constexpr float kPreciseNormalTail = {limit};

// [power][piece]
alignas(64) constexpr float kNormalTail[{powers}][{pieces}] = {{
"""


def tail(z):
    return mpmath.erfc(z / mpmath.sqrt(2)) / 2


def fit(center):
    half = WIDTH / 2
    nodes = numpy.cos((numpy.arange(64) + 0.5) * numpy.pi / 64)
    exact = numpy.array([float(tail(center + x * half) / tail(center)) for x in nodes])
    relative = numpy.vander(nodes, DEGREE + 1, increasing=True) / exact[:, None]
    weights = numpy.ones(len(nodes))
    for _ in range(300):
        root = numpy.sqrt(weights)
        found, *_ = numpy.linalg.lstsq(relative * root[:, None], root, rcond=None)
        error = numpy.abs(relative @ found - 1)
        weights = weights * numpy.sqrt(error / error.max()) + 1e-12
        weights /= weights.sum()
    return found / half ** numpy.arange(DEGREE + 1) * float(tail(center)), error.max() / EPSILON


def main():
    mpmath.mp.dps = 30
    pieces = [fit(mpmath.mpf(i) * WIDTH) for i in range(PIECES)]
    precise = 20  # the last piece of which relative errors matter
    for i, (_, error) in enumerate(pieces):
        print(f"{i * WIDTH}: {error:.3f}")
    with open(sys.argv[1], "w") as out:
        out.write(HEAD.format(last=pieces[precise][1] + 0.5, worst=pieces[-1][1] + 0.5, limit=(precise + 0.5) * WIDTH,
                              largest=(PIECES - 1) * WIDTH, powers=DEGREE + 1, pieces=PIECES))
        for power in range(DEGREE + 1):
            values = [f"{coefficients[power]:.9g}f" for coefficients, _ in pieces]
            values = [v if "e" in v or "." in v else v.replace("f", ".0f") for v in values]
            out.write("{" + ", ".join(values) + "},\n")
        out.write("};\n\n}  // namespace\n")


main()
