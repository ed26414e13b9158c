#!/usr/bin/env python3
"""Compares `pergola tokenize` with the Hugging Face library on random Unicode texts: ids and offsets.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tests/differential/tokenizers_fuzz.py --pergola build/release/pergola \
        --tokenizer model/tokenizer.json --count 200000 --seed 1

Exits with 1 and shows the first differences when there are any. Texts mix scripts, combining marks,
special-token strings, kinds of white space, long words, emoji sequences, code, controls and unassigned code
points. Beside what is random, the pieces of the vocabulary and the rules of a compiled character map come up in
turn, so that 10,000 texts hold each of them where it counts: as a line of its own, which is split as if it were alone.

    ... --mutants 20 --count 10000

is the proof that this finds something: Pergola is given a tokenizer that lacks one merge, piece or rule, chosen
at random among those that the library itself needs for their own text, and a difference must be found within
the texts. With `ignore_merges` (Llama 3), where a word of the vocabulary needs no merges, a merge's own text has a
rare letter behind it, and so have pieces in the texts. How many were passed over, because the library gives the same
ids without them, is printed. Exits with 1 when a mutant survives, or when 1,000 in a row change nothing.
"""

import argparse
import base64
import collections
import json
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

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
          "\x1c", "\x1f", "\ufeff", "\u2581", "\u2581\u2581", " \n ", "\r\n\r\n  "]
EMOJI = ["\U0001F468\u200d\U0001F469\u200d\U0001F467", "\U0001F1E9\U0001F1EA", "\u2764\ufe0f",
         "\U0001F44D\U0001F3FD", "1\ufe0f\u20e3", "\U0001F3F4\U000E0067\U000E0062\U000E007F", "\u00a9\u200d\u2122"]
ODD = ["\u0130", "\u0131", "\ufb01", "\u1e9e", "\u03a3", "\u03c2", "\u0345", "\u0344", "\u212b",
       "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0958", "\ufffd", "\uffff", "\ufffe", "\x00",
       "\u0323\u0301a", "e\u0301\u0323", "<0x41>", "##ing", "don't", "WE'LL", "it'\u017f", "U.S.A.", "a" * 101,
       "\u00e9" * 100, "\u4e2d\u6587", "\u0915\u094d\u0937", "\u0600 ", "\u0600a", "12345", "\u0663\u06f4", "HelloWorld",
       "if (x != y) {\n\t\treturn f(a[0], \"s\\n\");\n}", "https://a.b/c?d=e&f=g#h", "    def f(self):\n        pass\n"]
REST = ["a", "ab", "=", "-", " ", "\n", "\u2581", "\u0915", "1", "\u0301", "\u4e2d", "\u200d"]


def letters_to_bytes():
    """GPT-2's alphabet."""
    table, extra = {}, 0
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE:
            table[chr(byte)] = byte
        else:
            table[chr(0x100 + extra)] = byte
            extra += 1
    return table


class Vocabulary:
    """What a tokenizer.json is made of, as text."""

    def __init__(self, config):
        self.config = config
        self.model = config["model"]
        self.kind = self.model.get("type", "BPE")
        self.ignore_merges = bool(self.model.get("ignore_merges"))
        self.byte_level = '"ByteLevel"' in json.dumps(config["pre_tokenizer"])
        self.letters = letters_to_bytes()
        vocab = self.model["vocab"]
        self.pieces = [p for p, _ in vocab] if isinstance(vocab, list) else sorted(vocab)
        self.charsmaps = list(self.find_charsmaps(config["normalizer"]))
        self.rules = [rule for part in self.charsmaps[:1] for rule in self.read_rules(part)]

    def text_of(self, piece):
        """None where the piece alone is no text."""
        if self.byte_level:
            try:
                return bytes(self.letters[c] for c in piece).decode()
            except (KeyError, UnicodeDecodeError):
                return None
        # A piece that goes on a word has one letter before it.
        return "a" + piece[2:] if self.kind == "WordPiece" and piece.startswith("##") else piece.replace("\u2581", " ")

    @staticmethod
    def in_a_longer_word(text):
        """The text at the front of a word that no vocabulary has as one piece: whatever splits text into words
        keeps a letter with letters, a symbol with symbols and a space with spaces."""
        kind = unicodedata.category(text[-1])[0]
        return text + {"L": "\u01bb", "M": "\u01bb", "Z": "\u2003", "C": "\u2003"}.get(kind, "\u2021")

    def find_charsmaps(self, part):
        if isinstance(part, dict):
            if part.get("type") == "Precompiled":
                yield part
            for child in part.get("normalizers", []):
                yield from self.find_charsmaps(child)

    @staticmethod
    def read_rules(part):
        """Keys of a compiled map, each with the place of the unit that says so."""
        blob = base64.b64decode(part["precompiled_charsmap"])
        size = struct.unpack_from("<I", blob)[0] // 4
        units = struct.unpack_from(f"<{size}I", blob, 4)

        def offset(unit):
            return (unit >> 10) << ((unit & 512) >> 6)

        rules, queue = [], [(offset(units[0]), b"")]
        while queue:
            base, key = queue.pop()
            for byte in range(1, 256):
                place = base ^ byte
                if place >= size or units[place] & 0x800000FF != byte:
                    continue
                if units[place] >> 8 & 1:
                    try:
                        rules.append(((key + bytes([byte])).decode(), place))
                    except UnicodeDecodeError:
                        pass
                queue.append((place ^ offset(units[place]), key + bytes([byte])))
        return rules

    def mutant(self, generator):
        """A copy of the file that lacks something, and the text that shows it."""
        config = json.loads(json.dumps(self.config))
        model = config["model"]
        if self.charsmaps and generator.random() < 0.4:
            part = list(self.find_charsmaps(config["normalizer"]))[0]
            key, place = generator.choice(self.rules)
            blob = bytearray(base64.b64decode(part["precompiled_charsmap"]))
            unit = struct.unpack_from("<I", blob, 4 + 4 * place)[0]
            struct.pack_into("<I", blob, 4 + 4 * place, unit & ~256)
            part["precompiled_charsmap"] = base64.b64encode(blob).decode()
            return config, "a" + key + "a", f"rule {ascii(key)}"
        if self.kind == "BPE":
            return self.bpe_mutant(config, generator)
        if self.kind == "Unigram":
            entry = generator.choice([e for e in model["vocab"] if len(e[0]) > 1])
            piece = entry[0]
            entry[0] = "\x02removed"
        else:
            piece = generator.choice([p for p in self.pieces if not p.startswith("[")])
            model["vocab"]["\x02removed"] = model["vocab"].pop(piece)
        return config, self.text_of(piece), f"piece {ascii(piece)}"

    def bpe_mutant(self, config, generator):
        model = config["model"]
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        lost = generator.randrange(len(pairs))
        piece = "".join(pairs[lost])
        text = self.text_of(piece)
        if self.ignore_merges and generator.random() < 0.5:
            # The piece, and with it all merges that make it or go on from it.
            model["vocab"]["\x02removed"] = model["vocab"].pop(piece)
            model["merges"] = [merge for merge, pair in zip(model["merges"], pairs)
                               if piece not in (*pair, "".join(pair))]
            return config, text, f"piece {ascii(piece)}"
        del model["merges"][lost]
        if text and self.ignore_merges:
            text = self.in_a_longer_word(text)
        return config, text, f"merge {ascii(pairs[lost])}"


class Texts:
    """Random texts; every piece and every rule once in 10,000 of them."""

    def __init__(self, vocabulary, special, generator):
        self.generator = generator
        self.special = special
        self.words = [t for t in map(vocabulary.text_of, vocabulary.pieces) if t]
        rules = ["a" + key + "a" for key, _ in vocabulary.rules]
        self.streams = []
        pieces = self.words
        if vocabulary.ignore_merges:
            pieces = pieces + [vocabulary.in_a_longer_word(text) for text in pieces]
        for texts in (pieces, rules):
            if texts:
                self.streams.append((self.endless(texts), -(-len(texts) // 9000)))

    def endless(self, texts):
        texts = list(texts)
        while True:
            self.generator.shuffle(texts)
            yield from texts

    def next(self):
        parts = [self.part() for _ in range(self.generator.choice((1, 2, 3, 5, 8, 13, 30)))]
        spaces = ""  # as a piece, they show at the end of a text alone
        for stream, count in self.streams:
            for _ in range(count):
                text = next(stream)
                if text.isspace():
                    spaces = "(" + text
                parts.insert(self.generator.randint(0, len(parts)), "\n" + text + "\n")
        text = "".join(parts) + spaces
        return "".join(c for c in text if not 0xD800 <= ord(c) < 0xE000)

    def part(self):
        generator = self.generator
        kind = generator.random()
        space = " " if generator.random() < 0.4 else ""
        if kind < 0.30:
            low, high = generator.choice(RANGES)
            return "".join(chr(generator.randint(low, high)) for _ in range(generator.choice((1, 1, 2, 3, 8)))) + space
        if kind < 0.55:
            return generator.choice(self.words) + space
        if kind < 0.62:
            return generator.choice(SPACES) + space
        if kind < 0.67:
            return generator.choice(self.special) + space
        if kind < 0.71:
            text = generator.choice(self.special)
            cut = generator.randint(0, len(text))
            return text[:cut] + generator.choice(("", " ", "\u0301", text)) + text[cut:] + space
        if kind < 0.75:
            return generator.choice(EMOJI) + space
        if kind < 0.80:
            return generator.choice(ODD) + space
        if kind < 0.84:
            base = chr(generator.choice((0x61, 0x41, 0x3B1, 0x438, 0x915, 0x20, 0x2E)))
            return base + "".join(chr(generator.randint(0x300, 0x36F)) for _ in range(generator.randint(1, 4))) + space
        if kind < 0.86:
            return generator.choice(REST) * generator.choice((2, 5, 17, 40, 120)) + space
        return generator.choice((" ", " ", " ", ", ", ". ", "-", "'", "\n", " the ")) + space


class ScriptCount:
    """In how many texts each script came up, by the names of characters."""

    def __init__(self):
        self.counts = collections.Counter()
        self.scripts = {}

    def script_of(self, block):
        if block not in self.scripts:
            names = [unicodedata.name(chr(c), "") for c in range(block * 64, block * 64 + 64)
                     if unicodedata.category(chr(c))[0] == "L"]
            self.scripts[block] = names[0].split()[0].split("-")[0] if names and names[0] else None
        return self.scripts[block]

    def add(self, text):
        self.counts.update({self.script_of(block) for block in {ord(c) // 64 for c in text}} - {None})

    def __str__(self):
        return ", ".join(f"{script} {count}" for script, count in self.counts.most_common(40))


def byte_offsets(text, offsets):
    """The library counts code points."""
    starts = [0]
    for c in text:
        starts.append(starts[-1] + len(c.encode()))
    return [[starts[a], starts[b]] for a, b in offsets]


def run_batch(pergola, path, tokenizer, texts, folder):
    with open(folder + "/texts.jsonl", "w", encoding="ascii") as out:
        for text in texts:
            out.write(json.dumps({"text": text}) + "\n")
    result = subprocess.run(
        [pergola, "tokenize", "--model", path, "--input", folder + "/texts.jsonl",
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


def compare(arguments, path, tokenizer, texts, folder, most_differences, scripts):
    """Number of texts compared, and the differences."""
    differences, count = [], 0
    while count < arguments.count and len(differences) < most_differences:
        batch = [texts.next() for _ in range(min(arguments.batch, arguments.count - count))]
        for text in batch:
            scripts.add(text)
        differences += run_batch(arguments.pergola, path, tokenizer, batch, folder)
        count += len(batch)
    return count, differences


def write_mutant(path, vocabulary, tokenizer, generator):
    """What it lacks, or None, and how many were passed over."""
    for skipped in range(1000):
        config, text, name = vocabulary.mutant(generator)
        if not text:
            continue
        with open(path, "w", encoding="utf-8") as out:
            json.dump(config, out)
        mutant = Tokenizer.from_file(path)
        mutant.no_truncation()
        mutant.no_padding()
        if mutant.encode(text).ids != tokenizer.encode(text).ids:
            return name, skipped
    return None, 1000


def test_mutants(arguments, vocabulary, tokenizer, special, folder):
    generator = random.Random(arguments.seed)
    path = folder + "/mutant.json"
    survivors, passed_over = 0, 0
    for _ in range(arguments.mutants):
        name, skipped = write_mutant(path, vocabulary, tokenizer, generator)
        passed_over += skipped
        if name is None:
            print(f"{arguments.tokenizer}: {skipped} mutants in a row change nothing")
            return 1
        texts = Texts(vocabulary, special, generator)
        count, differences = compare(arguments, path, tokenizer, texts, folder, 1, ScriptCount())
        survivors += not differences
        print(f"without {name}: " + (f"found within {count} texts" if differences else "SURVIVES"), flush=True)
    print(f"{arguments.tokenizer}: {arguments.mutants - survivors} of {arguments.mutants} mutants found, {passed_over} "
          "passed over that change no ids of their own text")
    return 1 if survivors else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pergola", default="build/release/pergola")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2000)
    parser.add_argument("--mutants", type=int, default=0, help="test the test, so many times")
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(arguments.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with open(arguments.tokenizer, encoding="utf-8") as file:
        vocabulary = Vocabulary(json.load(file))
    special = [token["content"] for token in vocabulary.config["added_tokens"]]
    special += ["[CLS]", "[MASK]", "<bos>", "</s>", "<mask>", "<|endoftext|>"]
    with tempfile.TemporaryDirectory() as folder:
        if arguments.mutants:
            return test_mutants(arguments, vocabulary, tokenizer, special, folder)
        scripts = ScriptCount()
        texts = Texts(vocabulary, special, random.Random(arguments.seed))
        count, differences = compare(arguments, arguments.tokenizer, tokenizer, texts, folder, 20, scripts)
    for text, want, ours in differences[:5]:
        print("text", ascii(text))
        print("  want", want)
        print("  ours", ours)
    print(f"texts per script: {scripts}")
    print(f"{arguments.tokenizer}: {count} texts, {len(differences)} differences", flush=True)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
