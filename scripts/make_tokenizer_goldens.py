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

import make_unicode_tables
import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors)

PINNED = "0.23.3"
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
         r"|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
REGEXES = (GPT2, LLAMA3, QWEN2, QWEN35, O200K, " {2,}", " +", r"\s+", r"\s{2,}", r"\s", r"\n", r"\p{N}", r"\p{N}+",
           r"\p{N}{1,3}", r"\d", "[0-9][0-9][0-9]", r"[\p{P}\$\+<=>\^~\|]+")
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

MORE_TEXTS = [
    "don't DON'T we'll they're I'M he'D it'\u017f 's", "a  b   c    d", "line\n\n  next\r\n\r\n end \n", "   \n \t x", "12345 1 12 1234567",
    "x1y22z333", "!!! ??? ... a.b,c;d", "HelloWorld helloWorld HTTPServer XMLHttp2", "  leading and trailing   ", "\u4e2d\u6587\u3002\u65e5\u672c\u8a9e\u3001\u30c6\u30b9\u30c8",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u01c5ungla \u01c5\u01c5 \u02b0a \u00aa", "a/b//c /// \n/", "$100 + 50% = ~^|",
    "\u00b2\u00bd\u2167 \u0663", "e\u0301 e\u0301\u0301 \u0301x \u0301\u0302", "if (x == 1) {\n\treturn y[0];\n}\n", "\u200b\u200d\ufeff", "\u1e9b\u0323 \u0344",
    "a <mask> \n ", "<mask>\n", "The caf\u00e9 123", "The  hello\n\nworld", "hel hello hell  york new york",
]
TINY = ("qwen3-embed", "qwen3-bidir", "llama", "llama-spm-rope3", "roberta", "modernbert", "nomic-bert", "xlm-roberta",
        "xlm-roberta-reranker")


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


def byte_letters():
    """GPT-2's alphabet, byte by byte."""
    letters, extra = [], 0
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE:
            letters.append(chr(byte))
        else:
            letters.append(chr(0x100 + extra))
            extra += 1
    return letters


def byte_level(pre_tokenizer, normalizer=None, post_processor=None, ignore=False, letters=None, extra=()):
    letters = letters or byte_letters()
    g = "\u0120"
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), (g, "hello"), ("o", "r"), ("w", "or"), ("l", "d"),
              (g, "wor"), (g, "w"), (g + "w", "or"), (g + "wor", "ld"), (g, g), (g + g, g + g), ("\u010a", "\u010a"),
              ("a", "a"), ("aa", "aa"), ("a", "b"), ("ab", "ab"), ("\u00c3", "\u00a9"), ("c", "a"), ("ca", "f"),
              ("\u00e4", "\u00b8"), ("'", "t"), ("d", "on"), ("o", "n"), ("1", "2"), ("12", "3"), ("T", "he"), (g, "n")]
    merges = [m for m in merges if set(m[0] + m[1]) <= set(letters)]
    vocabulary = {}
    for token in ["<s>", "</s>", *extra, *letters, *(a + b for a, b in merges), "don", g + "york", "hel"]:
        vocabulary.setdefault(token, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=ignore, unk_token=extra[0] if extra else None))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if post_processor:
        tokenizer.post_processor = post_processor
    tokenizer.add_special_tokens(["<s>", "</s>", "<mask>"])
    return tokenizer


def byte_level_tokenizers():
    p, byte = pre_tokenizers, pre_tokenizers.ByteLevel
    template = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 0)])
    for name, regex in (("qwen2", QWEN2), ("llama3", LLAMA3), ("qwen35", QWEN35), ("o200k", O200K)):
        yield "byte_level_" + name, byte_level(
            p.Sequence([p.Split(Regex(regex), "isolated"), byte(add_prefix_space=False, use_regex=False)]),
            normalizers.NFC(), processors.Sequence([processors.ByteLevel(trim_offsets=False), template]),
            ignore=name == "llama3")
    yield "byte_level_gpt2", byte_level(byte(add_prefix_space=False), post_processor=processors.ByteLevel())
    yield "byte_level_prefix", byte_level(byte(add_prefix_space=True), post_processor=processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=True))
    yield "byte_level_digits", byte_level(p.Sequence([p.Digits(individual_digits=True), byte(add_prefix_space=False)]),
                                          normalizers.NFKC())
    yield "byte_level_whole", byte_level(byte(add_prefix_space=False, use_regex=False))
    yield "byte_level_holes", byte_level(byte(add_prefix_space=True), letters=[*byte_letters()[0x21:0x7F], "\u0120"],
                                         extra=("<unk>",))
    llama_cpp = [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]
    yield "byte_level_default", byte_level(p.Sequence([p.Split(Regex(r), "isolated") for r in llama_cpp] +
                                                      [byte(add_prefix_space=False, use_regex=False)]))


def charsmap():
    """A small map in the manner of SentencePiece's nmt_nfkc."""
    rules = {"\t": " ", "\n": " ", "\r": " ", "\u200b": " ", "\u3000": " ", "\u00a0": " ", "\u2028": " ", "\x01": "",
             "\x7f": "", "\ufb01": "fi", "\u2122": "TM", "e\u0301": "\u00e9", "u\u0308": "\u00fc", "\uff21": "A", "\uff22": "B",
             "\u2460": "1", "\u00bd": "1\u20442", "\u1100\u1161": "\uac00", "\u0600": "x", "\u0345": "\u03b9", "\u00a9": "(c)",
             "\u0344": "\u0308\u0301", "q": "kw", "\u200d": "", "\u0915\u093c": "\u0958", "\ufdfa": "long one"}
    return make_unicode_tables.charsmap(rules)


def unigram(normalizer, pre_tokenizer, bytes_too=False, post_processor=None):
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    if bytes_too:
        pieces += [(f"<0x{b:02X}>", -12.0) for b in range(256) if b != 0xE4]
    words = ["\u2581", "\u2581hello", "\u2581world", "hel", "lo", "wor", "ld", "\u2581the", "\u2581caf", "\u00e9", "fi", "ne", "aa", "aaaa",
             "ab", "abab", "\u2581\u2581", "\u2581new", "\u2581york", "key", "\u4e2d\u6587", "\u2581don", "'t", "1", "12", "123", "\u00fc", "or", "th"]
    pieces += [(w, -2.5 - 0.37 * i) for i, w in enumerate(words)]
    known = {w for w, _ in pieces}
    pieces += [(c, -9.0 - 0.01 * i) for i, c in enumerate(letters()) if c not in known and c not in "QZ~"]
    tokenizer = Tokenizer(models.Unigram(pieces, 3, bytes_too))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = post_processor or processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.add_special_tokens([AddedToken("<s>"), AddedToken("</s>"), AddedToken("<mask>", lstrip=True)])
    return tokenizer


def unigram_tokenizers():
    n, p = normalizers, pre_tokenizers
    precompiled = n.Precompiled(charsmap())
    yield "unigram_xlm", unigram(precompiled, p.Sequence([p.WhitespaceSplit(), p.Metaspace()]))
    yield "unigram_bge", unigram(n.Sequence([precompiled, n.Replace(Regex(" {2,}"), " ")]), p.Metaspace())
    yield "unigram_bytes", unigram(precompiled, p.Metaspace(prepend_scheme="never"), bytes_too=True)
    yield "unigram_first", unigram(n.Sequence([n.Strip(), precompiled]),
                                   p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="first")]))
    yield "unigram_whole", unigram(n.Sequence([n.NFKC(), n.Lowercase()]), p.Metaspace(prepend_scheme="first", split=False))
    yield "unigram_spaces", unigram(n.Sequence([n.Replace(Regex(r"\s+"), " "), precompiled]),
                                    p.Sequence([p.Punctuation("merged_with_previous"), p.Metaspace("_", "always")]))
    suffix = bert(pre_tokenizer=p.Sequence([p.Whitespace(), p.Digits(), p.Punctuation("removed")]))
    suffix.decoder = decoders.BPEDecoder("o")
    yield "whitespace_digits", suffix


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

    def pieces(pre_tokenizer):
        text = "".join(str(len(pre_tokenizer.pre_tokenize_str(f"a{c}a {c}1"))) for c in points)
        return f"{fnv(text.encode()):016x}"

    p = pre_tokenizers
    for pre_tokenizer in (p.BertPreTokenizer(), p.Whitespace(), p.WhitespaceSplit(), p.Digits(),
                          p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False)):
        result[type(pre_tokenizer).__name__] = pieces(pre_tokenizer)
    result["Split"] = {regex: pieces(p.Split(Regex(regex), "isolated")) for regex in REGEXES}
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
    TEXTS.extend(MORE_TEXTS)  # for what came later
    rstrip = bert(added=(AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False, special=True),
                         AddedToken("\n", normalized=False)))
    for name, tokenizer in (*byte_level_tokenizers(), *unigram_tokenizers(), ("bert_rstrip_newline", rstrip)):
        (folder / f"{name}.json").write_text(tokenizer.to_str(), encoding="utf-8")
        write(name, tokenizer)
    for model in TINY:
        write("tiny-" + model, Tokenizer.from_file(str(golden / "tiny" / model / "tokenizer.json")))
    (folder / "unicode.json").write_text(json.dumps(unicode_hashes(), indent=1) + "\n")
    (folder / "manifest.json").write_text(json.dumps({
        "tool": f"tokenizers {PINNED}", "made_by": "scripts/make_tokenizer_goldens.py",
        "bound": "ids, segments, byte offsets and decoded text are equal"}, indent=1) + "\n")


if __name__ == "__main__":
    main()
