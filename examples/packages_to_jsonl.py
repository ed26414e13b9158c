#!/usr/bin/env python3
"""Reads `apt-cache dumpavail` and writes one JSON line per package: name and English description."""
import json
import sys


def records(lines):
    """Yields {field: text} of each stanza; continuation lines are joined."""
    record, field = {}, None
    for line in lines:
        if not line.strip():
            if record:
                yield record
            record, field = {}, None
        elif line[0] in " \t" and field:
            record[field] += " " + line.strip()
        elif ":" in line:
            field, _, text = line.partition(":")
            record[field] = text.strip()
    if record:
        yield record


seen = set()
for package in records(sys.stdin):
    name = package.get("Package")
    text = package.get("Description-en") or package.get("Description")
    if name and text and name not in seen:
        seen.add(name)
        print(json.dumps({"name": name, "text": text}))
