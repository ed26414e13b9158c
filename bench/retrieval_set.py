#!/usr/bin/env python3
"""A retrieval set in BEIR's layout from Debian's package descriptions: which package does this line describe?

    apt-get update -o Acquire::Languages=en
    bench/retrieval_set.py FOLDER [--documents 5000] [--queries 1000] [--seed 1]
    pergola eval retrieval FOLDER -m all-MiniLM-L6-v2

A query is a package's one-line description, the right answer the long description of the same package, without that
line. Of packages that share a source's text or a line, one is kept.
"""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys

LISTS = pathlib.Path("/var/lib/apt/lists")


def descriptions():
    """(package, line, text) of every package that apt's lists describe in English."""
    files = sorted(LISTS.glob("*Translation-en*"))
    if not files:
        sys.exit("no descriptions: apt-get update -o Acquire::Languages=en")
    for file in files:
        records = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", file], check=True, capture_output=True,
                                 text=True).stdout.split("\n\n")
        for record in records:
            found = re.match(r"Package: (\S+)\n.*?Description-en: ([^\n]+)\n(.*)", record, re.DOTALL)
            if found:
                package, line, text = found.groups()
                text = re.sub(r"^ \.$", "", text, flags=re.MULTILINE).replace("\n ", "\n").strip()
                yield package, line.strip(), text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    lines, beginnings, kept = set(), set(), []
    for package, line, text in descriptions():
        # Packages of one source begin alike.
        if len(text) < 200 or line in lines or text[:60] in beginnings:
            continue
        lines.add(line)
        beginnings.add(text[:60])
        kept.append((package, line, text))
    kept = random.Random(arguments.seed).sample(sorted(kept), min(arguments.documents, len(kept)))
    asked = kept[:arguments.queries]
    (arguments.folder / "qrels").mkdir(parents=True)
    with open(arguments.folder / "corpus.jsonl", "w") as out:
        for package, _, text in kept:
            out.write(json.dumps({"_id": package, "title": "", "text": text}) + "\n")
    with open(arguments.folder / "queries.jsonl", "w") as out:
        for package, line, _ in asked:
            out.write(json.dumps({"_id": package, "text": line}) + "\n")
    with open(arguments.folder / "qrels" / "test.tsv", "w") as out:
        out.write("query-id\tcorpus-id\tscore\n")
        for package, _, _ in asked:
            out.write(f"{package}\t{package}\t1\n")
    print(f"{len(kept)} documents, {len(asked)} queries")


if __name__ == "__main__":
    main()
