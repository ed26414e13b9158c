"""JinaBERT v2 in torch. transformers has no class for it (the checkpoints bring their own code), so this is written
from the published description: BERT with post-norm layers, no table of positions but ALiBi in both directions (Press
et al. 2022; the bias of a head is minus its slope times the distance), and GEGLU feed-forward blocks of one matrix
without bias, the gated half first (Günther et al. 2023, "Jina Embeddings 2"). Names are those of the checkpoints."""
import math

import torch
import transformers as tf


def slopes(heads):
    """2^(-8 i / n) for a power of two n, else those of the power below and every second of the one above."""
    if math.log2(heads).is_integer():
        return [2 ** (-8 * (head + 1) / heads) for head in range(heads)]
    below = 2 ** math.floor(math.log2(heads))
    return slopes(below) + slopes(2 * below)[0::2][:heads - below]


class Embeddings(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.token_type_embeddings = torch.nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = torch.nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, ids):
        return self.LayerNorm(self.word_embeddings(ids) + self.token_type_embeddings.weight[0])


class Layer(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.heads = config.num_attention_heads

        def norm():
            return torch.nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.attention = torch.nn.ModuleDict({
            "self": torch.nn.ModuleDict({name: torch.nn.Linear(width, width)
                                         for name in ("query", "key", "value")}),
            "output": torch.nn.ModuleDict({"dense": torch.nn.Linear(width, width), "LayerNorm": norm()})})
        self.mlp = torch.nn.ModuleDict({
            "gated_layers": torch.nn.Linear(width, 2 * inner, bias=False),
            "wo": torch.nn.Linear(inner, width), "layernorm": norm()})

    def forward(self, x, bias):
        batch, tokens, width = x.shape

        def split(name):
            return self.attention["self"][name](x).view(batch, tokens, self.heads, -1).transpose(1, 2)
        scores = split("query") @ split("key").transpose(2, 3) / math.sqrt(width // self.heads) + bias
        mixed = (scores.softmax(-1) @ split("value")).transpose(1, 2).reshape(batch, tokens, width)
        output = self.attention["output"]
        x = output["LayerNorm"](output["dense"](mixed) + x)
        gated, plain = self.mlp["gated_layers"](x).chunk(2, dim=-1)
        return self.mlp["layernorm"](self.mlp["wo"](torch.nn.functional.gelu(gated) * plain) + x)


class JinaBertModel(tf.PreTrainedModel):
    config_class = tf.BertConfig
    base_model_prefix = "bert"

    def __init__(self, config):
        super().__init__(config)
        self.embeddings = Embeddings(config)
        self.encoder = torch.nn.ModuleDict({"layer": torch.nn.ModuleList(
            Layer(config) for _ in range(config.num_hidden_layers))})
        self.post_init()

    def _init_weights(self, module):
        pass

    def forward(self, input_ids):
        positions = torch.arange(input_ids.shape[1])
        distance = (positions[None, :] - positions[:, None]).abs().float()
        bias = -torch.tensor(slopes(self.config.num_attention_heads))[:, None, None] * distance
        x = self.embeddings(input_ids)
        for layer in self.encoder["layer"]:
            x = layer(x, bias)
        return tf.modeling_outputs.BaseModelOutput(last_hidden_state=x)
