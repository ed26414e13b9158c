#!/usr/bin/env python3
"""Writes tests/golden/tokenizers: small tokenizers of every supported part, and what they must give.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python scripts/make_tokenizer_goldens.py tests/golden

Each <name>.json is a tokenizer.json, each <name>.cases.jsonl what the Hugging Face library says: ids,
byte offsets, segments, truncated pairs, decoded text. The tiny models' tokenizers that lie in
tests/golden/tiny are covered too. unicode.json has hashes over the normalised form of every code point.
"""

import json
import pathlib
import random
import sys

import tokenizers
from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors)

PINNED = "0.23.3"
TEXTS = [
    "", " ", "a", "hello world", "  Hello,  World!  ", "caf\u00e9 na\u00efve re\u0301sume\u0301", "\u0130stanbul \u1e9e",
    "x\u0323\u0307y \u0344", "\ufb01ne \uff21\uff22 \u2460", "\uac00\uac01 \u1100\u1161\u11a8", "\u4e2d\u6587 text",
    "tab\tnew\nline\r\nend", "\u00a0nbsp\u3000wide\u2028sep", "a\u200db\u200c \ufeffc", "zero\x00byte \x01\x7f",
    "foo<mask>bar", "foo  <mask>  bar", "<mask><mask>", "wordkey key keys key.", "KEY Key k\u0301ey",
    "new york New York", "NEW  YORK", "<s>hello</s>", "[UNK] ## ##a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "abababababababababab", "a-b_c.d,e", "\U0001F468\u200d\U0001F469 \u2764\ufe0f", "\u2581\u2581a \u2581", "<0x41><0xE2>",
    "\u20ac\u20ac a\u20acb \u0915\u093f", "x" * 120, "one two three four five six seven eight nine ten",
    "don't can't I'm do not", "e\u0301\u0327\u0301 \u0958", "--- a --- b ---", "\u0661\u0662", "q\u00fcq \u00dc\u00fc",
]


def letters():
    return [chr(c) for c in range(0x21, 0x7F)] + list("\u00e9\u00fc\u2581\u4e2d\u0301\u0307\u00b7")


def word_pieces(prefix="##"):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary += [c for c in letters() if c != "q"]
    vocabulary += [prefix + c for c in letters() if c != "q"]
    vocabulary += ["hello", "wor", prefix + "ld", "caf", "new", "york", "key", prefix + "key", "th", prefix + "ree",
                   prefix + "aa", "aaa", "ab", prefix + "ab"]
    return {token: i for i, token in enumerate(dict.fromkeys(vocabulary))}


def bert(normalizer=None, pre_tokenizer=None, added=()):
    tokenizer = Tokenizer(models.WordPiece(word_pieces(), unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizer or normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("[UNK]", "[CLS]", "[SEP]", "[MASK]")])
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return tokenizer


def bpe(bytes_too=True, fuse=True, unk="<unk>", ignore=False, normalizer=None, pre_tokenizer=None, known=None):
    vocabulary = ["<unk>", "<s>", "</s>"]
    if bytes_too:
        vocabulary += [f"<0x{b:02X}>" for b in range(256)]
    vocabulary += [c for c in (known or letters()) if c != "q"]
    merges = [("a", "a"), ("aa", "aa"), ("a", "b"), ("ab", "ab"), ("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"),
              ("\u2581", "hello"), ("o", "r"), ("w", "or"), ("l", "d"), ("\u2581", "wor"), ("\u2581", "w"), ("\u2581w", "or"),
              ("\u2581", "\u2581"), ("n", "e"), ("e", "w"), ("n", "ew"), ("aa", "a"), ("t", "h"), ("th", "e")]
    vocabulary += [a + b for a, b in merges] + ["three", "four"]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unk, fuse_unk=fuse, byte_fallback=bytes_too,
                                     ignore_merges=ignore))
    tokenizer.normalizer = normalizer or normalizers.Replace(" ", "\u2581")
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> <s>:1 $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    return tokenizer


def scored():
    """A vocabulary as SentencePiece orders it; merges as its conversion makes them: every split of a piece
    into two, by falling score (here rising id; control and user-defined pieces have score 0)."""
    pieces = ["<unk>", "<s>", "</s>", "\u2581\u2581", "\n\n"] + [f"<0x{b:02X}>" for b in range(256)]
    pieces += ["aa", "ab", "he", "ll", "hell", "ello", "\u2581h", "\u2581he", "hello", "\u2581hello", "or", "\u2581w",
               "\u2581wor", "ld", "\u2581world", "aaa", "aaaa", "abab", "th", "three", "re", "e\u0301", "---", "--"]
    pieces += [c for c in letters() if c != "q"] + ["\n"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece, i in vocabulary.items():
        score = 0 if i < 5 else -i
        splits = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        splits = [s for s in splits if s[0] in vocabulary and s[1] in vocabulary]
        merges += [(score, *s) for s in sorted(splits, key=lambda s: (vocabulary[s[0]], vocabulary[s[1]]))]
    merges.sort(key=lambda m: (m[0], len(m[1]), len(m[2])), reverse=True)
    tokenizer = Tokenizer(models.BPE(vocabulary, [m[1:] for m in merges], unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> <s>:1 $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("\u2581\u2581", "\n\n")])
    return tokenizer


def small_tokenizers():
    n, p = normalizers, pre_tokenizers
    yield "bert_uncased", bert()
    yield "bert_cased", bert(n.BertNormalizer(lowercase=False))
    yield "bert_keep_all", bert(n.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=False,
                                                 lowercase=True))
    yield "bert_added", bert(added=(
        AddedToken("<mask>", lstrip=True, normalized=False, special=True),
        AddedToken("key", single_word=True, normalized=False), AddedToken("New York", normalized=True),
        AddedToken("--", rstrip=True, normalized=False)))
    yield "bert_rstrip", bert(added=(AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False, special=True),
                                     AddedToken("\n", normalized=False)))
    for name, form in (("nfc", n.NFC()), ("nfd", n.NFD()), ("nfkc", n.NFKC()), ("nfkd", n.NFKD())):
        yield name, bert(form, p.WhitespaceSplit())
    yield "sequence", bert(n.Sequence([n.Strip(), n.NFKD(), n.StripAccents(), n.Lowercase(), n.Replace("ll", "L"),
                                       n.Prepend("x")]), p.Sequence([p.WhitespaceSplit(), p.BertPreTokenizer()]))
    yield "bpe_bytes", bpe()
    yield "bpe_ignore_merges", bpe(ignore=True, pre_tokenizer=p.Split("\u2581", "merged_with_next"))
    yield "bpe_unk", bpe(bytes_too=False)
    yield "bpe_unk_apart", bpe(bytes_too=False, fuse=False)
    yield "bpe_no_unk", bpe(bytes_too=False, unk=None)
    yield "bpe_prefix", bpe(normalizer=n.Sequence([n.Prepend("\u2581"), n.Replace(" ", "\u2581")]))
    for behaviour in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        yield "split_" + behaviour, bpe(pre_tokenizer=p.Split("-", behaviour))
        yield "split_inverted_" + behaviour, bpe(pre_tokenizer=p.Split("a", behaviour, invert=True))
    yield "scored", scored()
    roberta = bpe()
    roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=True,
                                                          add_prefix_space=False)
    yield "roberta", roberta


def byte_offsets(texts, encoding):
    """The library counts code points; the segment says of which text."""
    starts = []
    for text in texts:
        starts.append([0])
        for c in text:
            starts[-1].append(starts[-1][-1] + len(c.encode()))
    result = []
    for (begin, end), sequence in zip(encoding.offsets, encoding.sequence_ids):
        result.append([0, 0] if sequence is None else [starts[sequence][begin], starts[sequence][end]])
    return result


def cases(tokenizer, generator):
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for text in TEXTS:
        full, bare = tokenizer.encode(text), tokenizer.encode(text, add_special_tokens=False)
        yield {"text": text, "ids": full.ids, "bare": bare.ids, "type_ids": full.type_ids,
               "offsets": byte_offsets([text], full), "special": full.special_tokens_mask,
               "decoded": tokenizer.decode(full.ids, skip_special_tokens=False),
               "decoded_bare": tokenizer.decode(full.ids, skip_special_tokens=True)}
    for _ in range(40):
        first, second = generator.choice(TEXTS), generator.choice(TEXTS)
        side = generator.choice(("right", "left"))
        limit = generator.choice((5, 8, 9, 12, 15, 30))
        tokenizer.enable_truncation(limit, direction=side)
        one, pair = tokenizer.encode(first), tokenizer.encode(first, second)
        tokenizer.no_truncation()
        yield {"text": first, "second": second, "limit": limit, "side": side, "cut": one.ids, "ids": pair.ids,
               "type_ids": pair.type_ids, "offsets": byte_offsets([first, second], pair),
               "special": pair.special_tokens_mask}


def fnv(values):
    result = 0xCBF29CE484222325
    for byte in values:
        result = (result ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return result


def unicode_hashes():
    """Hash over c -> form(c) of all code points, each followed by a newline; c = newline is left out."""
    n = normalizers
    forms = {"NFC": n.NFC(), "NFD": n.NFD(), "NFKC": n.NFKC(), "NFKD": n.NFKD(), "Lowercase": n.Lowercase(),
             "StripAccents": n.StripAccents(), "BertNormalizer": n.BertNormalizer(), "Strip": n.Strip()}
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c != 10]
    result = {}
    for name, form in forms.items():
        text = "".join(form.normalize_str(c) + "\n" for c in points)
        result[name] = f"{fnv(text.encode()):016x}"
    split = pre_tokenizers.BertPreTokenizer()
    text = "".join(str(len(split.pre_tokenize_str("a" + c + "a"))) for c in points)
    result["BertPreTokenizer"] = f"{fnv(text.encode()):016x}"
    return result


def main():
    if tokenizers.__version__ != PINNED:
        sys.exit(f"needs tokenizers {PINNED}, found {tokenizers.__version__}")
    golden = pathlib.Path(sys.argv[1])
    folder = golden / "tokenizers"
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(1)

    def write(name, tokenizer):
        with open(folder / f"{name}.cases.jsonl", "w", encoding="ascii") as out:
            for case in cases(tokenizer, generator):
                out.write(json.dumps(case, separators=(",", ":")) + "\n")

    for name, tokenizer in small_tokenizers():
        (folder / f"{name}.json").write_text(tokenizer.to_str(), encoding="utf-8")
        write(name, tokenizer)
    for model in ("bert", "bert-cls", "mpnet", "gemma3-embed"):
        write("tiny-" + model, Tokenizer.from_file(str(golden / "tiny" / model / "tokenizer.json")))
    (folder / "unicode.json").write_text(json.dumps(unicode_hashes(), indent=1) + "\n")
    (folder / "manifest.json").write_text(json.dumps({
        "tool": f"tokenizers {PINNED}", "made_by": "scripts/make_tokenizer_goldens.py",
        "bound": "ids, segments, byte offsets and decoded text are equal"}, indent=1) + "\n")


if __name__ == "__main__":
    main()
