#!/usr/bin/env python3
"""Compares `pergola tokenize` with the Hugging Face library on random Unicode texts: ids and offsets.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tests/differential/tokenizers_fuzz.py --pergola build/release/pergola \
        --tokenizer model/tokenizer.json --count 200000 --seed 1

Exits with 1 and shows the first differences when there are any. Texts mix scripts, combining marks,
special-token strings, kinds of white space, long words, emoji sequences, controls and unassigned code
points; `--pairs` and truncation have their own tests in src/tokenizers.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x61, 0x7A), (0xA0, 0x24F), (0x250, 0x2FF),
    (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x5FF), (0x600, 0x6FF), (0x700, 0x8FF),
    (0x900, 0xDFF), (0xE00, 0xFFF), (0x1000, 0x11FF), (0x1200, 0x1CFF), (0x1D00, 0x1DFF),
    (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x2C00, 0x2FFF), (0x3000, 0x30FF),
    (0x3100, 0x4DFF), (0x4E00, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xF8FF),
    (0xF900, 0xFAFF), (0xFB00, 0xFFFF), (0x10000, 0x10FFF), (0x11000, 0x12FFF), (0x16000, 0x18FFF),
    (0x1B000, 0x1D0FF), (0x1D100, 0x1D7FF), (0x1E000, 0x1EFFF), (0x1F000, 0x1FAFF),
    (0x20000, 0x323AF), (0xE0000, 0xE01EF), (0xF0000, 0x10FFFF), (0x0, 0x1F), (0x7F, 0x9F),
]
SPACES = ["\t", "\n", "\r", "\r\n", "\v", "\f", "\u00a0", "\u1680", "\u2000", "\u2009", "\u2028",
          "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\u0085", "  ", "   ", "\n\n", "\n\n\n",
          "\x1c", "\x1f", "\ufeff", "\u2581", "\u2581\u2581"]
EMOJI = ["\U0001F468\u200d\U0001F469\u200d\U0001F467", "\U0001F1E9\U0001F1EA", "\u2764\ufe0f",
         "\U0001F44D\U0001F3FD", "1\ufe0f\u20e3", "\U0001F3F4\U000E0067\U000E0062\U000E007F"]
ODD = ["\u0130", "\u0131", "\ufb01", "\u1e9e", "\u03a3", "\u03c2", "\u0345", "\u0344", "\u212b",
       "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0958", "\ufffd", "\uffff", "\ufffe", "\x00",
       "\u0323\u0301a", "e\u0301\u0323", "<0x41>", "##ing", "don't", "U.S.A.", "a" * 101,
       "\u00e9" * 100, "\u4e2d\u6587"]


def words_of(tokenizer, generator):
    vocabulary = sorted(tokenizer.get_vocab(with_added_tokens=False))
    return generator.sample(vocabulary, min(20000, len(vocabulary)))


def random_text(generator, words, special):
    parts = []
    for _ in range(generator.choice((1, 2, 3, 5, 8, 13, 30))):
        kind = generator.random()
        if kind < 0.30:
            low, high = generator.choice(RANGES)
            parts.append("".join(chr(generator.randint(low, high))
                                 for _ in range(generator.choice((1, 1, 2, 3, 8)))))
        elif kind < 0.55:
            parts.append(generator.choice(words).replace("##", ""))
        elif kind < 0.62:
            parts.append(generator.choice(SPACES))
        elif kind < 0.67:
            parts.append(generator.choice(special))
        elif kind < 0.71:
            text = generator.choice(special)
            cut = generator.randint(0, len(text))
            parts.append(text[:cut] + generator.choice(("", " ", "\u0301", text)) + text[cut:])
        elif kind < 0.75:
            parts.append(generator.choice(EMOJI))
        elif kind < 0.80:
            parts.append(generator.choice(ODD))
        elif kind < 0.84:
            base = chr(generator.choice((0x61, 0x41, 0x3B1, 0x438, 0x915, 0x20, 0x2E)))
            parts.append(base + "".join(chr(generator.randint(0x300, 0x36F))
                                        for _ in range(generator.randint(1, 4))))
        elif kind < 0.86:
            parts.append(generator.choice(("a", "ab", "=", "-", " ", "\n", "\u2581", "\u0915")) *
                         generator.choice((2, 5, 17, 40, 120)))
        else:
            parts.append(generator.choice((" ", " ", " ", ", ", ". ", "-", "'", "\n", " the ")))
        if generator.random() < 0.4:
            parts.append(" ")
    text = "".join(parts)
    return "".join(c for c in text if not 0xD800 <= ord(c) < 0xE000)


def byte_offsets(text, offsets):
    """The library counts code points."""
    starts = [0]
    for c in text:
        starts.append(starts[-1] + len(c.encode()))
    return [[starts[a], starts[b]] for a, b in offsets]


def run_batch(arguments, tokenizer, texts, path):
    with open(path, "w", encoding="ascii") as out:
        for text in texts:
            out.write(json.dumps({"text": text}) + "\n")
    result = subprocess.run(
        [arguments.pergola, "tokenize", "--model", arguments.tokenizer, "--input", path,
         "--field", "text", "--offsets"], check=True, capture_output=True)
    lines = result.stdout.splitlines()
    if len(lines) != len(texts):
        sys.exit(f"{len(lines)} lines for {len(texts)} texts")
    differences = []
    for text, line, expected in zip(texts, lines, tokenizer.encode_batch(texts)):
        ours = json.loads(line)
        want = {"ids": expected.ids, "offsets": byte_offsets(text, expected.offsets)}
        if ours != want:
            differences.append((text, want, ours))
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pergola", default="build/release/pergola")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=5000)
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    tokenizer = Tokenizer.from_file(arguments.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    added = json.load(open(arguments.tokenizer, encoding="utf-8"))["added_tokens"]
    special = [token["content"] for token in added] + ["[CLS]", "[MASK]", "<bos>", "</s>", "<mask>"]
    words = words_of(tokenizer, generator)
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, arguments.count, arguments.batch):
            texts = [random_text(generator, words, special)
                     for _ in range(min(arguments.batch, arguments.count - start))]
            differences += run_batch(arguments, tokenizer, texts, folder + "/texts.jsonl")
            if len(differences) > 20:
                break
    for text, want, ours in differences[:5]:
        print("text", ascii(text))
        print("  want", want)
        print("  ours", ours)
    print(f"{arguments.count} texts, {len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
