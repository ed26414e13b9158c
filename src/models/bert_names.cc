#include "models/bert_names.h"

#include <string>

namespace pergola::models {
namespace {

constexpr BertNames kBertNames = {.architecture = "bert",
                                  .naming = TensorNaming::kHuggingFace,
                                  .task_prefixes = {"bert."},
                                  .word = "embeddings.word_embeddings",
                                  .position = "embeddings.position_embeddings",
                                  .type = "embeddings.token_type_embeddings",
                                  .embedding_norm = "embeddings.LayerNorm",
                                  .layer = "encoder.layer.",
                                  .attention = {.query = "attention.self.query",
                                                .key = "attention.self.key",
                                                .value = "attention.self.value",
                                                .output = "attention.output.dense"},
                                  .attention_norm = "attention.output.LayerNorm",
                                  .ffn = {.up = "intermediate.dense", .down = "output.dense"},
                                  .output_norm = "output.LayerNorm"};

constexpr BertNames ElectraNames() {
  BertNames names = kBertNames;
  names.architecture = "electra";
  names.task_prefixes = {"electra."};
  return names;
}

constexpr BertNames RobertaNames(std::string_view architecture) {
  BertNames names = kBertNames;
  names.architecture = architecture;
  names.task_prefixes = {"roberta."};
  return names;
}

constexpr BertNames DistilBertNames() {
  BertNames names = kBertNames;
  names.architecture = "distilbert";
  names.task_prefixes = {"distilbert."};
  names.layer = "transformer.layer.";
  names.attention.query = "attention.q_lin";
  names.attention.key = "attention.k_lin";
  names.attention.value = "attention.v_lin";
  names.attention.output = "attention.out_lin";
  names.attention_norm = "sa_layer_norm";
  names.ffn.up = "ffn.lin1";
  names.ffn.down = "ffn.lin2";
  names.output_norm = "output_layer_norm";
  return names;
}

constexpr BertNames MpnetNames() {
  BertNames names = kBertNames;
  names.architecture = "mpnet";
  names.task_prefixes = {"mpnet."};
  names.relative_bias = "encoder.relative_attention_bias";
  names.attention.query = "attention.attn.q";
  names.attention.key = "attention.attn.k";
  names.attention.value = "attention.attn.v";
  names.attention.output = "attention.attn.o";
  names.attention_norm = "attention.LayerNorm";
  return names;
}

constexpr BertNames DebertaNames() {
  BertNames names = kBertNames;
  names.architecture = "deberta-v2";
  names.task_prefixes = {"deberta."};
  names.distance_table = "encoder.rel_embeddings";
  names.distance_norm = "encoder.LayerNorm";
  names.attention.query = "attention.self.query_proj";
  names.attention.key = "attention.self.key_proj";
  names.attention.value = "attention.self.value_proj";
  return names;
}

constexpr BertNames JinaBertNames() {
  BertNames names = kBertNames;
  names.architecture = "jina_bert";
  names.position = "";
  names.ffn = {.down = "mlp.wo", .gate_and_up = "mlp.gated_layers"};
  names.output_norm = "mlp.layernorm";
  return names;
}

constexpr BertNames NomicBertNames() {
  BertNames names = kBertNames;
  names.architecture = "nomic_bert";
  names.task_prefixes = {"nomic_bert.", "bert."};
  names.position = "";
  names.embedding_norm = "emb_ln";
  names.layer = "encoder.layers.";
  names.attention = {.qkv = "attn.Wqkv", .output = "attn.out_proj"};
  names.attention_norm = "norm1";
  names.ffn = {.gate = "mlp.fc12", .up = "mlp.fc11", .down = "mlp.fc2"};
  names.output_norm = "norm2";
  return names;
}

constexpr BertNames GteNames() {
  BertNames names = kBertNames;
  names.architecture = "new";
  names.task_prefixes = {"new.", "gte."};
  names.position = "";
  names.attention = {.qkv = "attention.qkv_proj", .output = "attention.o_proj"};
  names.attention_norm = "attn_ln";
  names.ffn = {.down = "mlp.down_proj", .gate_and_up = "mlp.up_gate_proj", .up_first = true};
  names.output_norm = "mlp_ln";
  return names;
}

constexpr BertNames GgufNames(std::string_view architecture, bool gated) {
  return {.architecture = architecture,
          .naming = TensorNaming::kGguf,
          .word = "token_embd",
          .position = "position_embd",
          .type = "token_types",
          .embedding_norm = "token_embd_norm",
          .layer = "blk.",
          .attention = {.qkv = gated ? "attn_qkv" : "",
                        .query = "attn_q",
                        .key = "attn_k",
                        .value = "attn_v",
                        .output = "attn_output"},
          .attention_norm = "attn_output_norm",
          .ffn = {.gate = gated ? "ffn_gate" : "", .up = "ffn_up", .down = "ffn_down"},
          .output_norm = "layer_output_norm"};
}

// llama.cpp keeps gate and up in one matrix, in the checkpoint's order.
constexpr BertNames JinaGgufNames() {
  BertNames names = GgufNames("jina_bert", false);
  names.position = "";
  names.ffn = {.down = "ffn_down", .gate_and_up = "ffn_up"};
  return names;
}

constexpr std::array<BertNames, 14> kNames = {kBertNames,
                                              RobertaNames("roberta"),
                                              RobertaNames("xlm-roberta"),
                                              RobertaNames("camembert"),
                                              ElectraNames(),
                                              DistilBertNames(),
                                              MpnetNames(),
                                              DebertaNames(),
                                              JinaBertNames(),
                                              NomicBertNames(),
                                              GteNames(),
                                              GgufNames("bert", false),
                                              GgufNames("nomic_bert", true),
                                              JinaGgufNames()};

}  // namespace

Result<const BertNames*> BertNamesOf(const ModelConfig& config) {
  for (const BertNames& names : kNames) {
    if (names.architecture == config.architecture && names.naming == config.naming) return &names;
  }
  return UnimplementedError("no tensor names for architecture '" + config.architecture + "'");
}

}  // namespace pergola::models
