#!/usr/bin/env python3
"""run.py [--update] FIXED_WORK: counts the instructions of every piece of fixed work under callgrind.

Compares them with instructions.tsv beside this file and fails where one is off by more than three per cent,
either way: a gain is written down with --update, so that it is not lost unnoticed. Unlike a time, a count is the
same on a busy machine; it depends on the compiler, so the file names the one it was counted with and another
compiler's counts are shown without being judged.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

BAND = 0.03
FIGURES = pathlib.Path(__file__).with_name("instructions.tsv")


def compiler():
    return subprocess.run(["c++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()


def instructions(program, name):
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--toggle-collect=FixedWork", "--callgrind-out-file=/dev/null", program, name],
        capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not found:
        sys.exit(f"{name}: {run.stderr[-2000:]}")
    return int(found[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--update", action="store_true", help="write the counts down")
    args = parser.parse_args()

    names = subprocess.run([args.program], capture_output=True, text=True, check=True).stdout.split()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = dict(zip(names, pool.map(lambda name: instructions(args.program, name), names)))
    if args.update:
        lines = [f"compiler\t{compiler()}"] + [f"{name}\t{count}" for name, count in counts.items()]
        FIGURES.write_text("\n".join(lines) + "\n")
        print(f"{len(counts)} counts written to {FIGURES}")
        return 0

    expected = dict(line.split("\t") for line in FIGURES.read_text().splitlines())
    judged = expected.pop("compiler") == compiler()
    passed = failed = 0
    for name in sorted(counts.keys() | expected.keys()):
        if name not in counts or name not in expected:
            print(f"{name}: {'no such work' if name in expected else 'not in ' + FIGURES.name}")
            failed += 1
            continue
        change = counts[name] / int(expected[name]) - 1
        good = abs(change) <= BAND or not judged
        print(f"{name:20} {counts[name]:12,} {change:+7.2%}{'' if good else '  off by more than 3 %'}")
        passed += good
        failed += not good
    if not judged:
        print(f"counted with another compiler than {compiler()}: not judged")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
