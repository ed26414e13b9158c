#!/usr/bin/env python3
"""Writes src/tokenizers/unicode_tables.cc: what the tokenizers know about code points.

Ids must equal those of the Hugging Face `tokenizers` library, whose Rust crates each carry their own
Unicode version (normalisation, categories and lower-casing differ). So the library itself, in one
pinned version, is asked about every code point, and the answers are the table:

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python scripts/make_unicode_tables.py src/tokenizers/unicode_tables.cc

`--check FILE` compares instead of writing. Takes about a minute.

Grapheme clusters have no face of their own in the library, but the Precompiled normaliser works by them: it
looks up a whole cluster of at most 5 bytes, and a rule for its first character swallows the rest. Small rule
sets make that visible.
"""

import argparse
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

PINNED = "0.23.3"
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)

# Bits of Record::flags; unicode.h has the same list.
MARK_NONSPACING = 1
MARK = 2
PUNCTUATION = 4
OTHER = 8
WHITESPACE = 16
WORD = 32
DECOMPOSES = 64
DECOMPOSES_COMPATIBLY = 128

# General categories in the order of UnicodeCategory in unicode.h.
CATEGORIES = ("Cn", "Cc", "Cf", "Co", "Zs", "Zl", "Zp", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me",
              "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So")
# Bits beside the category.
REGEX_SPACE = 32
NUMERIC = 64
NFC_CHANGES = 128
# GraphemeClass in unicode.h.
(OTHER_GRAPHEME, CONTROL, EXTEND, ZWJ, SPACING_MARK, PREPEND, REGIONAL, LEAD, VOWEL, TRAIL, LV, LVT,
 PICTOGRAPH) = range(13)
CONSONANT, LINKER, CONJUNCT_EXTEND = 16, 32, 48
NFKC_CHANGES = 64


def flags_by_removal(normalizer, context="a{}a", kept="a{}a"):
    """Code points that `normalizer` removes when they stand alone between letters."""
    return {c for c in ALL if chr(c) not in normalizer.normalize_str(context.format(chr(c)))}


def nonspacing_marks():
    """BertNormalizer's strip_accents decomposes first; only what does not decompose tells."""
    bert = normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    nfd = normalizers.NFD()
    return {c for c in ALL
            if nfd.normalize_str(chr(c)) == chr(c) and bert.normalize_str(chr(c)) == ""}


def combining_marks():
    strip = normalizers.StripAccents()
    return {c for c in ALL if strip.normalize_str(chr(c)) == ""}


def others_and_whitespace():
    bert = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    removed, spaces = set(), set()
    for c in ALL:
        out = bert.normalize_str(chr(c))
        if out == "" and c not in (0, 0xFFFD):
            removed.add(c)
    # Whitespace as char::is_whitespace: what Strip removes.
    strip = normalizers.Strip()
    for c in ALL:
        if strip.normalize_str(chr(c)) == "":
            spaces.add(c)
    removed.add(0)
    return removed | {9, 10, 13}, spaces


def punctuation(spaces):
    split = pre_tokenizers.BertPreTokenizer()
    return {c for c in ALL
            if c not in spaces and len(split.pre_tokenize_str("a" + chr(c) + "a")) == 3}


def word_characters():
    """\\w as single_word added tokens see it."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.add_tokens([AddedToken("zz", single_word=True, normalized=False)])
    token = tokenizer.token_to_id("zz")
    found = set()
    for start in range(0, len(ALL), 4096):
        block = ALL[start:start + 4096]
        encodings = tokenizer.encode_batch(["zz" + chr(c) for c in block])
        found.update(c for c, e in zip(block, encodings) if token not in e.ids)
    return found


def decompositions(normalizer):
    table = {}
    for c in ALL:
        if c in HANGUL:
            continue
        out = normalizer.normalize_str(chr(c))
        if out != chr(c):
            table[c] = [ord(x) for x in out]
    return table


def combining_classes(canonical):
    """The class of c is where c sorts among marks of known classes."""
    nfd = normalizers.NFD()
    ladder = {}
    for c in ALL:
        k = unicodedata.combining(chr(c))
        x = chr(c)
        # The library may be older than Python and not know the mark.
        known = nfd.normalize_str(x + "\u0334") != x + "\u0334" or k == 1
        if k and known and k not in ladder and c not in canonical:
            ladder[k] = x
    steps = sorted(ladder)
    classes = {}
    for c in ALL:
        if c in canonical or c in HANGUL:
            continue
        x = chr(c)
        if nfd.normalize_str(ladder[240] + x) == ladder[240] + x and not unicodedata.combining(x):
            if nfd.normalize_str(x + ladder[1]) == x + ladder[1]:
                continue
        below = sum(nfd.normalize_str(x + ladder[k]) == ladder[k] + x for k in steps
                    if ladder[k] != x)
        above = sum(nfd.normalize_str(ladder[k] + x) == x + ladder[k] for k in steps
                    if ladder[k] != x)
        if not below and not above:
            continue
        classes[c] = steps[below]
        same = len(steps) - below - above
        if same > 1 or (same == 0):
            sys.exit(f"U+{c:04X}: no combining class fits")
    return classes


def compositions(canonical):
    nfc = normalizers.NFC()
    pairs = []
    for c in ALL:
        raw = unicodedata.decomposition(chr(c))
        if c in HANGUL or not raw or raw.startswith("<"):
            continue
        parts = [int(x, 16) for x in raw.split()]
        if len(parts) == 2 and c in canonical:
            if nfc.normalize_str(chr(parts[0]) + chr(parts[1])) == chr(c):
                pairs.append((parts[0], parts[1], c))
    # Whatever the library composes must be in the list: a composed character keeps its form under NFC.
    known = {c for _, _, c in pairs}
    for c in canonical:
        if nfc.normalize_str(chr(c)) == chr(c) and c not in known:
            sys.exit(f"U+{c:04X} composes in a way that is not understood")
    return sorted(pairs)


def lower_case():
    normalizer = normalizers.Lowercase()
    table = {}
    for c in ALL:
        out = normalizer.normalize_str(chr(c))
        if out != chr(c):
            table[c] = [ord(x) for x in out]
    return table


def matches(pattern):
    """Code points that the regular expression `pattern` (one character) matches."""
    split = pre_tokenizers.Split(Regex(f"(?:{pattern})+"), "removed")
    text = "".join(chr(c) for c in ALL)
    rest = set()
    for piece, _ in split.pre_tokenize_str(text):
        rest.update(map(ord, piece))
    return {c for c in ALL if c not in rest}


def categories():
    table = {}
    for number, name in enumerate(CATEGORIES):
        if number:
            table.update((c, number) for c in matches(r"\p{%s}" % name))
    return table


def numeric():
    split = pre_tokenizers.Digits()
    text = "a" + "a".join(chr(c) for c in ALL)
    found = set()
    for piece, _ in split.pre_tokenize_str(text):
        if "a" not in piece:
            found.update(map(ord, piece))
    return found


def charsmap(rules):
    """`rules`, a table of strings, as the Precompiled normaliser has them: see precompiled.h."""
    strings, starts, texts = b"", {}, {}
    for text in rules.values():
        if text not in texts:
            texts[text] = len(strings)
            strings += text.encode() + b"\0"
    tree = {}
    for key, text in rules.items():
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = texts[text]
    # A unit: label, leaf flag, offset of the children. The children of a node lie at base ^ byte.
    units, bases, top = {0: 0}, set(), 1
    queue = [(0, tree)]
    while queue:
        place, node = queue.pop()
        base = next(b for b in range(max(1, top - 300), top + 512)
                    if b not in bases and all(b ^ byte not in units for byte in node))
        bases.add(base)
        units[place] |= (base ^ place) << 10 | (256 if 0 in node else 0)
        for byte, child in node.items():
            units[base ^ byte] = child | 1 << 31 if byte == 0 else byte
            top = max(top, (base ^ byte) + 1)
            if byte:
                queue.append((base ^ byte, child))
    blob = b"".join(struct.pack("<I", units.get(i, 0)) for i in range((top | 255) + 1))
    return struct.pack("<I", len(blob)) + blob + strings


def precompiled(rules):
    return normalizers.Precompiled(charsmap(rules))


def grapheme_classes():
    """Class and Indic conjunct class of every code point, from what swallows what; see the top."""
    table = {}
    by_letter, by_mark = precompiled({"a": "X"}), precompiled({"\u0301": "Y"})
    by_sign, by_ka = precompiled({"\u00a9": "X"}), precompiled({"\u0915": "X"})
    for c in ALL:
        x = chr(c)
        group = OTHER_GRAPHEME
        if c == 0x200D:
            group = ZWJ
        elif by_mark.normalize_str(x + "\u0301\u0302") == x + "Y":
            group = CONTROL
        elif by_letter.normalize_str("a" + x) == "X":
            extends = by_sign.normalize_str("\u00a9" + x + "\u200d\u00a9\u0301").endswith("X\u0301")
            group = EXTEND if extends else SPACING_MARK
        elif by_letter.normalize_str(x + "a\u0301") == x + "X\u0301":
            group = PREPEND
        elif by_sign.normalize_str("\u00a9\u200d" + x).startswith("X\u200d"):
            group = PICTOGRAPH
        elif 0x1F1E6 <= c <= 0x1F1FF:
            group = REGIONAL
        elif 0x1100 <= c <= 0x115F or 0xA960 <= c <= 0xA97C:
            group = LEAD
        elif 0x1160 <= c <= 0x11A7 or 0xD7B0 <= c <= 0xD7C6:
            group = VOWEL
        elif 0x11A8 <= c <= 0x11FF or 0xD7CB <= c <= 0xD7FB:
            group = TRAIL
        elif c in HANGUL:
            group = LV if (c - 0xAC00) % 28 == 0 else LVT
        if group in (EXTEND, SPACING_MARK, ZWJ):
            if by_ka.normalize_str("\u0915" + x + "\u0915\u0301").endswith("X\u0301"):
                group |= LINKER
            elif by_ka.normalize_str("\u0915" + x + "\u094d\u0915\u0301").endswith("X\u0301"):
                group |= CONJUNCT_EXTEND
        table[c] = group
    letters = [chr(c) for c in ALL if 0x900 <= c < 0x10000 and table[c] == OTHER_GRAPHEME]
    for start in range(0, len(letters), 2048):
        block = letters[start:start + 2048]
        by_block = precompiled(dict.fromkeys(block, "X"))
        for x in block:
            if by_block.normalize_str("\u0915\u094d" + x + "\u0301").endswith("X\u0301"):
                table[ord(x)] |= CONSONANT
    return table


def changes_when_composed(normalizer, pairs):
    """What may change by NFC or NFKC: by itself, or because it joins what is before it."""
    changed = {c for c in ALL if normalizer.normalize_str(chr(c)) != chr(c)}
    return changed | {second for _, second, _ in pairs} | {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}


def rows(values, form="{}"):
    """Comma-separated values in lines of at most 100 columns."""
    line, lines = " ", []
    for value in values:
        text = " " + form.format(value) + ","
        if len(line) + len(text) > 100:
            lines.append(line)
            line = " "
        line += text
    lines.append(line)
    return "\n".join(lines)


def two_stage(per_code_point, block=128):
    index, blocks, seen = [], [], {}
    for start in range(0, 0x110000, block):
        key = tuple(per_code_point[start:start + block])
        if key not in seen:
            seen[key] = len(seen)
            blocks.extend(key)
        index.append(seen[key])
    while index and index[-1] == index[-2]:
        index.pop()
    return index, blocks


def flatten(table):
    """Sorted keys, and per key the place and the length in one pool of code points."""
    pool, entries = [], []
    for c in sorted(table):
        entries.append((c, len(pool), len(table[c])))
        pool.extend(table[c])
    return entries, pool


def generate():
    canonical = decompositions(normalizers.NFD())
    compatible = decompositions(normalizers.NFKD())
    extra = {c: d for c, d in compatible.items() if canonical.get(c) != d}
    marks, nonspacing = combining_marks(), nonspacing_marks()
    others, spaces = others_and_whitespace()
    punct, words = punctuation(spaces), word_characters()
    classes, lower, pairs = combining_classes(canonical), lower_case(), compositions(canonical)
    category, regex_spaces, numbers = categories(), matches(r"\s"), numeric()
    graphemes = grapheme_classes()
    nfc_changes = changes_when_composed(normalizers.NFC(), pairs)
    nfkc_changes = changes_when_composed(normalizers.NFKC(), pairs)

    records, seen, per_code_point = [], {}, []
    for c in range(0x110000):
        flags = sum(bit for bit, group in (
            (MARK_NONSPACING, nonspacing), (MARK, marks), (PUNCTUATION, punct), (OTHER, others),
            (WHITESPACE, spaces), (WORD, words), (DECOMPOSES, canonical),
            (DECOMPOSES_COMPATIBLY, compatible)) if c in group)
        delta = lower[c][0] - c if c in lower and len(lower[c]) == 1 else 0
        kind = category.get(c, 0) + sum(bit for bit, group in (
            (REGEX_SPACE, regex_spaces), (NUMERIC, numbers), (NFC_CHANGES, nfc_changes)) if c in group)
        grapheme = graphemes.get(c, CONTROL) | (NFKC_CHANGES if c in nfkc_changes else 0)
        record = (flags, classes.get(c, 0), kind, grapheme, delta)
        if record not in seen:
            seen[record] = len(records)
            records.append(record)
        per_code_point.append(seen[record])
    for c, text in lower.items():
        if len(text) > 1 and c != 0x130:
            sys.exit(f"U+{c:04X} has a long lower case that unicode.cc does not know")
    index, blocks = two_stage(per_code_point)
    canonical_entries, canonical_pool = flatten(canonical)
    compatible_entries, compatible_pool = flatten(extra)

    parts = [f"""// Made by scripts/make_unicode_tables.py from tokenizers {PINNED}; do not edit.
#include "tokenizers/unicode_tables.h"

// clang-format off
namespace pergola::tokenizers::unicode_tables {{

const Record kRecords[] = {{
{rows(["{%d, %d, %d, %d, %d}" % r for r in records])}
}};
const uint32_t kNumBlocks = {len(index)};
const uint16_t kBlockOf[] = {{
{rows(index)}
}};
const uint16_t kBlocks[] = {{
{rows(blocks)}
}};
"""]
    for name, entries, pool in (("Canonical", canonical_entries, canonical_pool),
                                ("Compatible", compatible_entries, compatible_pool)):
        parts.append(f"""const uint32_t kNum{name} = {len(entries)};
const Decomposition k{name}[] = {{
{rows(["{0x%X, %d, %d}" % e for e in entries])}
}};
const uint32_t k{name}Pool[] = {{
{rows(pool, "0x{:X}")}
}};
""")
    parts.append(f"""const uint32_t kNumCompositions = {len(pairs)};
const Composition kCompositions[] = {{
{rows(["{0x%X, 0x%X, 0x%X}" % p for p in pairs])}
}};

}}  // namespace pergola::tokenizers::unicode_tables
// clang-format on
""")
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    if tokenizers.__version__ != PINNED:
        sys.exit(f"needs tokenizers {PINNED}, found {tokenizers.__version__}")
    text = generate()
    if arguments.check:
        if open(arguments.file, encoding="ascii").read() != text:
            sys.exit(f"{arguments.file} differs from what would be written")
        return
    with open(arguments.file, "w", encoding="ascii") as out:
        out.write(text)


if __name__ == "__main__":
    main()
