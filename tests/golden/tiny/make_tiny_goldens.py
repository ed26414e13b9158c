#!/usr/bin/env python3
"""Makes the tiny random-weight models whose folders have a manifest.json here, with the reference
library's classes: weights, ids, hidden states and outputs. Texts, pairs and tokenizers are those of
the other folders.

  python3 -m venv v && v/bin/pip install torch transformers tokenizers safetensors
  v/bin/python tests/golden/tiny/make_tiny_goldens.py [NAME...]

Same versions and seed give the same files. Outputs are computed in float32 on the CPU, one text at a
time: no padding. What golden.f32 holds, "output_kind" in golden.json says:

  embedding         a row per text: pooled, and of unit length where "normalize" is true
  class_logits      a row per pair
  rerank_logit      a row of one value per pair
  token_heads       a row per text as "embedding"; sparse.f32 and multi_vector.f32 hold a row per token
                    of every text, in order
"""

import dataclasses
import hashlib
import json
import pathlib
import shutil
import sys
from typing import Callable

import numpy as np
import safetensors.torch
import tokenizers
import torch
import transformers as tf
from jina_bert_reference import JinaBertModel

HERE = pathlib.Path(__file__).resolve().parent
HIDDEN_TEXTS = [1, 4, 9]


def small(**changes):
    return dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                max_position_embeddings=300) | changes


@dataclasses.dataclass
class Model:
    seed: int
    tokenizer: str  # folder whose tokenizer.json it takes, parsed and changed by `retokenise`
    make: Callable  # vocabulary size -> model
    pooling: str = "mean"
    normalise: bool = True
    pairs: bool = False
    modules: bool = True  # writes the sentence-transformers files of an embedding model
    extra_config: dict = dataclasses.field(default_factory=dict)
    base: str = ""  # the folder writes only a LoRA adapter of this one
    logits: Callable = None  # (model, ids as tensor, type ids) -> row
    retokenise: Callable = None
    heads: Callable = None   # adds files to the folder; (model, directory) -> {name: module}


def randomise(model, seed):
    """Weights far from zero, norms and biases not at their start values: errors show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                scale = 0.5 if "embed" in name else 1.5 / parameter.shape[-1] ** 0.5
                parameter.copy_(scale * noise)
            elif name.endswith("weight"):
                parameter.copy_(1 + 0.2 * noise)
            else:
                parameter.copy_(0.2 * noise)


def classifier(cls, config, labels, **settings):
    names = {"id2label": dict(enumerate(labels)),
             "label2id": {label: i for i, label in enumerate(labels)}}
    return lambda vocab: cls(config(vocab_size=vocab, **small(), **names, **settings))


def sequence_logits(model, ids, types):
    extra = {} if types is None else {"token_type_ids": types}
    return model(input_ids=ids, **extra).logits[0]


def yes_no_logit(yes, no):
    def logit(model, ids, _):
        row = model(input_ids=ids).logits[0, -1]
        tokenizer = tokenizers.Tokenizer.from_file(str(HERE / "qwen3-embed" / "tokenizer.json"))
        return (row[tokenizer.token_to_id(yes)] - row[tokenizer.token_to_id(no)])[None]
    return logit


def add_lora(network, name, directory):
    """PEFT's files, by hand: matrices of rank 4 for two kinds of modules, merged into the network."""
    generator = torch.Generator().manual_seed(97)
    rank, alpha, tensors = 4, 6, {}
    with torch.no_grad():
        for module_name, module in network.named_modules():
            if module_name.split(".")[-1] in ("q_proj", "down_proj"):
                a = torch.randn((rank, module.in_features), generator=generator) / 4
                b = torch.randn((module.out_features, rank), generator=generator) / 4
                module.weight += alpha / rank * b @ a
                tensors[f"base_model.model.{module_name}.lora_A.weight"] = a
                tensors[f"base_model.model.{module_name}.lora_B.weight"] = b
    safetensors.torch.save_file(tensors, directory / "adapter_model.safetensors")
    (directory / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "FEATURE_EXTRACTION", "r": rank, "lora_alpha": alpha,
        "base_model_name_or_path": f"../{name}", "target_modules": ["q_proj", "down_proj"],
        "bias": "none", "use_rslora": False, "use_dora": False, "fan_in_fan_out": False,
        "rank_pattern": {}, "alpha_pattern": {}, "modules_to_save": None}, indent=1))


def colbert_head(model, directory):
    """ColBERT keeps its linear layer in the model's file, as class HF_ColBERT."""
    head = torch.nn.Linear(model.config.hidden_size, 16, bias=False)
    generator = torch.Generator().manual_seed(98)
    with torch.no_grad():
        head.weight.copy_(torch.randn(head.weight.shape, generator=generator))
    tensors = {f"bert.{name}": tensor for name, tensor in model.state_dict().items()}
    safetensors.torch.save_file(tensors | {"linear.weight": head.weight.detach()},
                                directory / "model.safetensors")
    return {"colbert_linear": head}


def bge_heads(model, directory):
    generator = torch.Generator().manual_seed(99)
    width = model.config.hidden_size
    heads = {"sparse_linear": torch.nn.Linear(width, 1),
             "colbert_linear": torch.nn.Linear(width, width)}
    for name, head in heads.items():
        with torch.no_grad():
            for parameter in head.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / width ** 0.5)
        safetensors.torch.save_file(head.state_dict(), directory / f"{name}.safetensors")
    return heads


def deberta_tokenizer(parts):
    """XLM-R's pieces in the pipeline that transformers' converter makes of DeBERTa's spm.model."""
    names = {"<s>": "[PAD]", "<pad>": "[CLS]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
    for piece in parts["model"]["vocab"]:
        piece[0] = names.get(piece[0], piece[0])
    for token in parts["added_tokens"]:
        token["content"] = names[token["content"]]
        token["lstrip"] = False
    charsmap = next(each for each in parts["normalizer"]["normalizers"]
                    if each["type"] == "Precompiled")
    parts["normalizer"]["normalizers"] = [
        {"type": "Strip", "strip_left": True, "strip_right": True}, charsmap,
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    parts["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [parts["pre_tokenizer"]]}

    def special(name, type_id):
        return {"SpecialToken": {"id": name, "type_id": type_id}}

    single = [special("[CLS]", 0), {"Sequence": {"id": "A", "type_id": 0}}, special("[SEP]", 0)]
    parts["post_processor"] = {
        "type": "TemplateProcessing", "single": single,
        "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}, special("[SEP]", 1)],
        "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]}
                           for name, i in (("[CLS]", 1), ("[SEP]", 2))}}
    return parts


# As v3: positions in attention alone, 8 buckets on each side up to a distance of 64.
DEBERTA_V3 = dict(relative_attention=True, position_buckets=8, max_relative_positions=64,
                  pos_att_type="p2c|c2p", share_att_key=True, norm_rel_ebd="layer_norm",
                  position_biased_input=False, type_vocab_size=0)
# The padding id must be one that no text has: positions are counted by it. With the tokenizer of
# `bert` that is 0, [PAD].
DECODER = dict(num_key_value_heads=2, head_dim=8)
MODELS = {
    "camembert": Model(2001, "bert", lambda vocab: tf.CamembertModel(tf.CamembertConfig(
        vocab_size=vocab, type_vocab_size=1, pad_token_id=0, **small()))),
    "jina-bert": Model(2019, "bert", lambda vocab: JinaBertModel(tf.BertConfig(
        vocab_size=vocab, type_vocab_size=2, **small(hidden_size=48, num_attention_heads=6))),
        extra_config={"position_embedding_type": "alibi", "feed_forward_type": "geglu"}),
    "electra": Model(2020, "bert", lambda vocab: tf.ElectraModel(tf.ElectraConfig(
        vocab_size=vocab, embedding_size=32, pad_token_id=0, **small()))),
    "electra-reranker": Model(
        2021, "bert", classifier(tf.ElectraForSequenceClassification, tf.ElectraConfig, ["LABEL_0"],
                                 embedding_size=32, pad_token_id=0), pairs=True,
        logits=sequence_logits),
    "gte": Model(2002, "bert", lambda vocab: tf.GteModel(tf.GteConfig(
        vocab_size=vocab, type_vocab_size=1, pad_token_id=0,
        **small(rope_parameters={"rope_type": "default", "rope_theta": 20000.0}))), pooling="cls"),
    "mistral": Model(2003, "llama-spm-rope3", lambda vocab: tf.MistralModel(tf.MistralConfig(
        vocab_size=vocab, sliding_window=7, **DECODER, **small())), pooling="lasttoken"),
    "llama-bidirectional": Model(
        2004, "llama-spm-rope3", lambda vocab: tf.LlamaModel(tf.LlamaConfig(
            vocab_size=vocab, is_causal=False, attention_bias=True, mlp_bias=True,
            **DECODER, **small()))),
    "llama-rope3": Model(2011, "llama-spm-rope3", lambda vocab: tf.LlamaForCausalLM(tf.LlamaConfig(
        vocab_size=vocab, attention_bias=True, tie_word_embeddings=True, **DECODER, **small(rope_parameters={
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}))),
        pooling="lasttoken"),
    "qwen2": Model(2015, "qwen3-embed", lambda vocab: tf.Qwen2Model(tf.Qwen2Config(
        vocab_size=vocab, **DECODER, **small())), pooling="lasttoken"),
    "qwen2-lora": Model(2015, "qwen3-embed", lambda vocab: tf.Qwen2Model(tf.Qwen2Config(
        vocab_size=vocab, **DECODER, **small())), pooling="lasttoken", base="qwen2"),
    "eurobert": Model(2016, "llama", lambda vocab: tf.EuroBertModel(tf.EuroBertConfig(
        vocab_size=vocab, pad_token_id=0, bos_token_id=None, eos_token_id=None,
        **DECODER, **small()))),
    "deberta": Model(2017, "xlm-roberta-reranker", lambda vocab: tf.DebertaV2Model(
        tf.DebertaV2Config(vocab_size=vocab, **DEBERTA_V3, **small())),
        retokenise=deberta_tokenizer),
    "deberta-reranker": Model(
        2018, "xlm-roberta-reranker", classifier(
            tf.DebertaV2ForSequenceClassification, tf.DebertaV2Config, ["LABEL_0"], **DEBERTA_V3),
        pairs=True, logits=sequence_logits, retokenise=deberta_tokenizer),
    # What v3 leaves out: projections of their own, a row per distance, absolute positions, types.
    "deberta-classifier": Model(
        2019, "xlm-roberta-reranker", classifier(
            tf.DebertaV2ForSequenceClassification, tf.DebertaV2Config,
            ["entailment", "neutral", "contradiction"], relative_attention=True,
            max_relative_positions=20, pos_att_type=["p2c", "c2p"], position_biased_input=True,
            type_vocab_size=2, pooler_hidden_act="tanh"),
        pairs=True, logits=sequence_logits, retokenise=deberta_tokenizer),
    "bge-m3": Model(2005, "bert", lambda vocab: tf.XLMRobertaModel(tf.XLMRobertaConfig(
        vocab_size=vocab, type_vocab_size=1, pad_token_id=0, **small()), add_pooling_layer=False),
        pooling="cls", heads=bge_heads),
    "colbert": Model(2012, "bert", lambda vocab: tf.BertModel(
        tf.BertConfig(vocab_size=vocab, **small()), add_pooling_layer=False), modules=False,
        extra_config={"architectures": ["HF_ColBERT"]}, heads=colbert_head),
    "nomic-classifier": Model(
        2013, "bert", classifier(tf.NomicBertForSequenceClassification, tf.NomicBertConfig,
                                 ["a", "b"]), pairs=True, logits=sequence_logits),
    "gte-reranker": Model(
        2014, "bert", classifier(tf.GteForSequenceClassification, tf.GteConfig, ["score"],
                                 type_vocab_size=2, pad_token_id=0), pairs=True,
        logits=sequence_logits),
    "roberta-classifier": Model(
        2006, "roberta", classifier(tf.RobertaForSequenceClassification, tf.RobertaConfig,
                                    ["anger", "joy", "fear"], type_vocab_size=1, pad_token_id=1),
        pairs=True, logits=sequence_logits),
    "distilbert-classifier": Model(
        2007, "bert", lambda vocab: tf.DistilBertForSequenceClassification(tf.DistilBertConfig(
            vocab_size=vocab, dim=32, n_layers=2, n_heads=4, hidden_dim=48,
            max_position_embeddings=300, id2label={0: "negative", 1: "positive"})), pairs=True,
        logits=lambda model, ids, _: sequence_logits(model, ids, None)),
    "modernbert-classifier": Model(
        2008, "modernbert", classifier(tf.ModernBertForSequenceClassification, tf.ModernBertConfig,
                                       ["no", "maybe", "yes"], local_attention=12,
                                       classifier_pooling="mean", classifier_bias=True,
                                       pad_token_id=0), pairs=True,
        logits=lambda model, ids, _: sequence_logits(model, ids, None)),
    "qwen3-reranker": Model(
        2009, "qwen3-embed", lambda vocab: tf.Qwen3ForCausalLM(tf.Qwen3Config(
            vocab_size=vocab, tie_word_embeddings=True, pad_token_id=None, bos_token_id=None,
            eos_token_id=None, **DECODER, **small())), pairs=True,
        extra_config={"classifier_from_token": ["no", "as"]}, logits=yes_no_logit("as", "no")),
    "qwen3-score": Model(
        2010, "qwen3-embed", lambda vocab: tf.Qwen3ForSequenceClassification(tf.Qwen3Config(
            vocab_size=vocab, num_labels=1, pad_token_id=0, bos_token_id=None, eos_token_id=None,
            **DECODER, **small())), pairs=True,
        logits=lambda model, ids, _: sequence_logits(model, ids, None)),
}


def pool(rows, kind):
    return {"mean": rows.mean(0), "cls": rows[0], "lasttoken": rows[-1]}[kind]


def write_floats(path, rows):
    path.write_bytes(np.concatenate([np.asarray(row, dtype="<f4").ravel() for row in rows]).tobytes())


def write_modules(directory, model, width):
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    if model.normalise:
        modules.append(("2_Normalize", "Normalize"))
    (directory / "modules.json").write_text(json.dumps([
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(modules)], indent=1))
    (directory / "1_Pooling").mkdir()
    flag = {"mean": "mean_tokens", "cls": "cls_token", "lasttoken": "lasttoken"}[model.pooling]
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(
        {"word_embedding_dimension": width, f"pooling_mode_{flag}": True}, indent=1))


def inputs(model, directory):
    """[(ids, type ids)] and what golden.json says of them."""
    encoder = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    encoder.no_truncation()
    encoder.no_padding()
    source = json.loads((HERE / ("bert-classifier" if model.pairs else "bert") /
                         "golden.json").read_text())
    if not model.pairs:
        texts = source["texts"]
        encoded = [encoder.encode(text) for text in texts]
        # Decoder tokenizers may give nothing for an empty text.
        kept = [i for i, each in enumerate(encoded) if 0 < len(each.ids) <= 290]
        facts = {"texts": [texts[i] for i in kept]}
        encoded = [encoded[i] for i in kept]
    else:
        pairs = [pair for pair in source["pairs"]
                 if pair["query"] and pair["passage"] and len(pair["passage"]) < 200]
        encoded = [encoder.encode(pair["query"], pair["passage"]) for pair in pairs]
        facts = {"pairs": pairs}
    facts["ids"] = [each.ids for each in encoded]
    if model.pairs and any(any(each.type_ids) for each in encoded):
        facts["token_type_ids"] = [each.type_ids for each in encoded]
    return [(torch.tensor([each.ids]), torch.tensor([each.type_ids])) for each in encoded], facts


@torch.no_grad()
def run(model, network, heads, batch, facts, directory):
    base = network.base_model
    hidden, rows, per_head = [], [], {name: [] for name in heads}
    for ids, types in batch:
        states = base(input_ids=ids).last_hidden_state[0]
        hidden.append(states.numpy())
        if model.logits is not None:
            rows.append(model.logits(network, ids, types).numpy())
            continue
        row = pool(states, model.pooling)
        rows.append((row / row.norm() if model.normalise else row).numpy())
        for name, head in heads.items():
            values = head(states)
            per_head[name].append((values.relu() if name == "sparse_linear" else values).numpy())
    width = rows[0].shape[-1]
    kind = "embedding" if model.logits is None else "rerank_logit" if width == 1 else "class_logits"
    facts |= {"output_kind": "token_heads" if heads else kind, "shape": [len(rows), width]}
    write_floats(directory / "golden.f32", rows)
    for name, values in per_head.items():
        file = {"sparse_linear": "sparse.f32", "colbert_linear": "multi_vector.f32"}[name]
        write_floats(directory / file, values)
    if model.logits is not None:
        return
    facts |= {"pooling": model.pooling, "normalize": model.normalise}
    shown, offset = [], 0
    for index in HIDDEN_TEXTS:
        shown.append({"text_index": index, "shape": list(hidden[index].shape), "row_offset": offset})
        offset += len(hidden[index])
    write_floats(directory / "hidden.f32", [hidden[index] for index in HIDDEN_TEXTS])
    facts["hidden"] = {"file": "hidden.f32", "rows": shown}


def make(name, model):
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    source = HERE / model.tokenizer / "tokenizer.json"
    if model.retokenise:
        (directory / "tokenizer.json").write_text(
            json.dumps(model.retokenise(json.loads(source.read_text())), ensure_ascii=False))
    else:
        shutil.copy(source, directory)
    vocab = tokenizers.Tokenizer.from_file(str(source)).get_vocab_size()
    torch.manual_seed(model.seed)
    network = model.make(vocab).eval()
    randomise(network, model.seed)
    if model.base:
        add_lora(network, model.base, directory)
    else:
        network.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        config = json.loads((directory / "config.json").read_text()) | model.extra_config
        (directory / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True))
    heads = model.heads(network, directory) if model.heads else {}
    if model.logits is None and model.modules and not model.base:
        write_modules(directory, model, network.config.hidden_size)
    batch, facts = inputs(model, directory)
    if model.base:
        (directory / "tokenizer.json").unlink()  # the base has it
    run(model, network, heads, batch, facts, directory)
    (directory / "golden.json").write_text(json.dumps(facts, ensure_ascii=False))
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    (directory / "manifest.json").write_text(json.dumps({
        "script": "make_tiny_goldens.py", "class": type(network).__name__, "seed": model.seed,
        "torch": torch.__version__, "transformers": tf.__version__,
        "tokenizers": tokenizers.__version__,
        "bound": "cosine 0.99999, logits and sparse weights 1e-4",
        "sha256": {path.relative_to(directory).as_posix():
                   hashlib.sha256(path.read_bytes()).hexdigest() for path in files}}, indent=1))
    print(name, sum(path.stat().st_size for path in files))


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        make(name, MODELS[name])


if __name__ == "__main__":
    main()
