#!/usr/bin/env python3
"""Includes go down only: compares every #include of src/ with cmake/layers.rules.

Also: third-party headers stay out of the project's headers, no two modules include each other, and no
file outside the kernels and the few files named below uses the preprocessor to choose code.
Tests, benchmarks and fuzz targets may include anything.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
TEST = re.compile(r"(_test|_benchmark|_fuzz)\.cc$|/testing/")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b")
MAY_BRANCH = re.compile(r"^(kernels/cpu/(vec|isa)/|kernels/cuda/|core/cpu_features\.cc|core/check\.h|"
                        r"core/large_memory\.cc|core/mapped_file\.cc|core/process_memory\.cc|core/short_float\.cc|core/thread_pool\.cc|engine/backends\.cc)")
# A header of the standard library or of the C library has no dot or ends in .h without a folder.
STANDARD = re.compile(r"^[a-z_]+$|^[a-z_]+\.h$|^sys/[a-z]+\.h$|^immintrin\.h$")
SPEAK_GRPC = ("rpc", "server", "grid")
# SIMDe in the place of immintrin.h.
SIMDE = re.compile(r"^simde/x86/")
THIRD_PARTY_IN_HEADERS = {"kernels/cpu/vec/avx512_simde-inl.h": SIMDE, "kernels/cpu/vec/integer_sums-inl.h": SIMDE}


def read_rules(path):
    rules = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            module, _, allowed = line.partition(":")
            rules[module.strip()] = allowed.split()
    return rules


def main():
    rules = read_rules(ROOT / "cmake" / "layers.rules")
    problems, edges, files = [], set(), 0
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        name = path.relative_to(SOURCE).as_posix()
        module = name.split("/")[0]
        is_test = bool(TEST.search(name))
        files += 1
        if module not in rules:
            problems.append(f"{name}: module '{module}' is not in cmake/layers.rules")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if CONDITIONAL.match(line) and not is_test and not MAY_BRANCH.match(name):
                problems.append(f"{name}:{number}: preprocessor conditional outside kernels and core")
            match = INCLUDE.match(line)
            if not match:
                continue
            quoted, target = match.group(1) == '"', match.group(2)
            if target.endswith(".pb.h"):
                if not is_test and (path.suffix == ".h" or module not in SPEAK_GRPC):
                    problems.append(f"{name}:{number}: generated messages outside the .cc files of {SPEAK_GRPC}")
                continue
            if quoted and target.startswith("pergola/"):
                continue
            if quoted and not (SOURCE / target).exists():
                problems.append(f'{name}:{number}: "{target}" does not exist under src/')
            elif quoted:
                other = target.split("/")[0]
                if other == module or is_test:
                    continue
                edges.add((module, other))
                if other not in rules[module] and target not in rules[module]:
                    problems.append(f"{name}:{number}: {module} may not include {target}")
            elif name in THIRD_PARTY_IN_HEADERS and THIRD_PARTY_IN_HEADERS[name].match(target):
                continue
            elif path.suffix == ".h" and not STANDARD.match(target) and not is_test:
                problems.append(f"{name}:{number}: third-party header <{target}> in a header")
    for a, b in sorted(edges):
        if a < b and (b, a) in edges:
            problems.append(f"modules {a} and {b} include each other")
    for problem in problems:
        print(problem)
    print(f"{files} files, {len(edges)} edges between modules, {len(problems)} problems")
    return 1 if problems or files < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
