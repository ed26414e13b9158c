"""What the command lines of compare.py and http_servers.py have in common."""

import argparse
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def integers(text):
    return [int(part) for part in text.split(",")]


def parser_of(description, only, lengths, seconds):
    """`only`, `seconds`: what --only and --seconds are of; `lengths`: the default of --lengths."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--pergola", default=os.environ.get("PERGOLA", ROOT / "build" / "release" / "pergola"))
    parser.add_argument("--home", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("PERGOLA_HOME", "~/.cache/pergola")).expanduser())
    parser.add_argument("--only", default="", help=f"{only} has this in it")
    parser.add_argument("--lengths", type=integers, default=lengths)
    parser.add_argument("--seconds", type=float, default=0.5, help=seconds)
    return parser
