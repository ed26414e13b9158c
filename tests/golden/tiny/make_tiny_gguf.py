#!/usr/bin/env python3
"""Converts some of the tiny models here to GGUF with llama.cpp's own converter: model.gguf beside
model.safetensors, in F32, so that the same golden values hold.

  tests/golden/tiny/make_tiny_gguf.py

The converter is that of tests/gguf/toolchain.py, which installs it in the first run. Its list of known
tokenizers does not have these small ones: they are written under the name of their kind.

Not here, for the converter has no class for them: mpnet, deberta, gte, qwen3-bidir, embedding-gemma2,
nomic-classifier, gte-reranker, qwen3-score and the heads of bge-m3 and colbert. It has one, but writes
another model: of camembert (positions from 0), bert-classifier (no pooler), mistral (no window) and the
two of Gemma 3 here (heads scaled by another number than their width), whose real files
tests/gguf/make_gguf.py makes.
"""

import json
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "gguf"))
from toolchain import Toolchain, default_folder  # noqa: E402

# Folder: name of its pre-tokenizer in GGUF files.
MODELS = {
    "bert": "default",
    "distilbert": "default",
    "distilbert-classifier": "default",
    "roberta-classifier": "roberta-bpe",
    "xlm-roberta": "default",
    "xlm-roberta-reranker": "default",
    "jina-bert": "jina-v2-en",
    "nomic-bert": "default",
    "modernbert-classifier": "modern-bert",
    "eurobert": "llama-bpe",
    "qwen2": "qwen2",
    "qwen3-embed": "qwen2",
    "qwen3-reranker": "qwen2",
    "llama-rope3": "default",
    "llama-bidirectional": "default",
}

# The converter reads only the original spelling of nomic_bert.
NOMIC_KEYS = {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
              "n_inner": "intermediate_size", "layer_norm_epsilon": "layer_norm_eps"}
NOMIC_SETTINGS = {"n_positions": 8192, "max_trained_positions": 2048, "activation_function": "swiglu",
                  "causal": False, "qkv_proj_bias": False, "mlp_fc1_bias": False,
                  "mlp_fc2_bias": False, "prenorm": False, "rotary_emb_fraction": 1.0,
                  "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
                  "rotary_emb_base": 1000}


def prepared(name, folder):
    """A copy of the model that the converter takes."""
    target = pathlib.Path(folder) / name
    shutil.copytree(HERE / name, target)
    path = target / "config.json"
    config = json.loads(path.read_text())
    if name == "nomic-bert":
        config |= {key: config[old] for key, old in NOMIC_KEYS.items()} | NOMIC_SETTINGS
    if name == "eurobert":
        config["classifier_pooling"] = "mean"  # of a head that it lacks
    if name == "llama-bidirectional":
        config["architectures"] = ["LlamaBidirectionalModel"]
    if name == "xlm-roberta-reranker":
        keep_character_map(target / "tokenizer.json")
    for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
        if config.get(key, 0) is not None and config.get(key, 0) >= config["vocab_size"]:
            del config[key]
    path.write_text(json.dumps(config))
    set_tokenizer_config(name, target / "tokenizer_config.json")
    return target


def set_tokenizer_config(name, path):
    settings = json.loads(path.read_text()) if path.exists() else {
        "tokenizer_class": "PreTrainedTokenizerFast"}
    if name == "jina-bert":
        settings |= {"tokenizer_class": "BertTokenizer", "unk_token": "[UNK]"}
    if name == "xlm-roberta":
        # Where the sentencepiece file of published models says whether spaces are joined.
        settings["clean_up_tokenization_spaces"] = True
    path.write_text(json.dumps(settings))


def keep_character_map(path):
    """The converter takes the normalizer for the map alone; what else is done to spaces, it knows."""
    tokenizer = json.loads(path.read_text())
    tokenizer["normalizer"], = [part for part in tokenizer["normalizer"]["normalizers"]
                                if part["type"] == "Precompiled"]
    path.write_text(json.dumps(tokenizer))


def convert(name, pre, conversion, gguf):
    with tempfile.TemporaryDirectory() as folder:
        source = prepared(name, folder)
        hparams = conversion.ModelBase.load_hparams(source, False)
        kind = conversion.get_model_class(hparams["architectures"][0])
        if name == "qwen3-reranker":
            make_reranker(kind, source)
        kind.get_vocab_base_pre = lambda self, tokenizer: pre
        if name in ("llama-rope3", "llama-bidirectional"):
            kind.set_vocab = lambda self: set_llama_vocab(self, gguf, source)
        target = HERE / name / "model.gguf"
        model = kind(source, gguf.LlamaFileType.ALL_F32, target)
        model.write()
        print(name, target.stat().st_size)


def make_reranker(kind, source):
    """The tokens that stand for yes and no here."""
    vocab = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]

    def find(self):
        self.is_rerank, self.is_tied_embeddings = True, True
        self.token_true_id, self.token_false_id = vocab["as"], vocab["no"]
    kind._find_rerank_config = find


def set_llama_vocab(model, gguf, source):
    """The vocabulary from tokenizer.json, as the converter makes it from a sentencepiece file, which
    the tiny models lack: a piece's score is the rank of the merge that makes it. Ids differ for runs of
    spaces, whose merges in tokenizer.json are not all that sentencepiece would do."""
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    special = {token["content"] for token in tokenizer["added_tokens"]}
    scores = {}
    for rank, merge in enumerate(tokenizer["model"]["merges"]):
        scores.setdefault("".join(merge if isinstance(merge, list) else merge.split(" ")), -rank)
    tokens = sorted(vocab, key=vocab.get)

    def kind(token):
        if token == tokenizer["model"].get("unk_token"):
            return gguf.TokenType.UNKNOWN
        if token in special:
            return gguf.TokenType.CONTROL
        return gguf.TokenType.BYTE if len(token) == 6 and token[:3] == "<0x" else gguf.TokenType.NORMAL
    writer = model.gguf_writer
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([float(scores.get(token, 0)) for token in tokens])
    writer.add_token_types([kind(token) for token in tokens])
    writer.add_bos_token_id(vocab["<s>"])
    writer.add_eos_token_id(vocab["</s>"])
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)


def main():
    tools = Toolchain(default_folder())
    tools.make()
    tools.enter()
    sys.path[:0] = [str(tools.llama_cpp), str(tools.llama_cpp / "gguf-py")]
    import conversion
    import gguf
    for name in sys.argv[1:] or MODELS:
        convert(name, MODELS[name], conversion, gguf)


if __name__ == "__main__":
    main()
