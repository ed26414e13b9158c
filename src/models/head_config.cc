#include "models/head_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "models/config_reader.h"

namespace pergola::models {
namespace {

namespace fs = std::filesystem;
using kernels::Epilogue;
using kernels::PoolingKind;

// A family's classification head: perhaps a dense layer with an activation, then the classifier.
struct ClassifierStyle {
  std::string_view architecture;
  // Candidates for the dense layer's tensors, as the encoder's own prefix varies; empty: none.
  std::array<std::string_view, 3> dense = {};
  Epilogue activation = Epilogue::kTanh;
  std::string_view classifier;
};

constexpr std::array<ClassifierStyle, 11> kClassifierStyles = {{
    {"bert", {"bert.pooler.dense", "pooler.dense"}, Epilogue::kTanh, "classifier"},
    {"nomic_bert",
     {"nomic_bert.pooler.dense", "bert.pooler.dense", "pooler.dense"},
     Epilogue::kTanh,
     "classifier"},
    {"new", {"new.pooler.dense", "gte.pooler.dense"}, Epilogue::kTanh, "classifier"},
    {"roberta", {"classifier.dense"}, Epilogue::kTanh, "classifier.out_proj"},
    {"xlm-roberta", {"classifier.dense"}, Epilogue::kTanh, "classifier.out_proj"},
    {"camembert", {"classifier.dense"}, Epilogue::kTanh, "classifier.out_proj"},
    {"electra", {"classifier.dense"}, Epilogue::kGeluErf, "classifier.out_proj"},
    {"mpnet", {"classifier.dense"}, Epilogue::kTanh, "classifier.out_proj"},
    {"deberta-v2", {"pooler.dense"}, Epilogue::kGeluErf, "classifier"},
    {"distilbert", {"pre_classifier"}, Epilogue::kRelu, "classifier"},
    {"modernbert", {"head.dense"}, Epilogue::kGeluErf, "classifier"},
}};

bool EndsInSequenceClassification(const JsonObject& config_json) {
  const auto classes = config_json.Strings("architectures");
  return classes && !classes->empty() && classes->front().ends_with("ForSequenceClassification");
}

bool IsLateInteraction(const JsonObject& config_json) {
  const auto classes = config_json.Strings("architectures");
  return classes && !classes->empty() && classes->front() == "HF_ColBERT";
}

std::string FirstPresent(const formats::TensorSource& source,
                         std::span<const std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (!prefix.empty() && source.Find(std::string(prefix) + ".weight") != nullptr) {
      return std::string(prefix);
    }
  }
  return std::string(prefixes.front());  // so that the error of reading names it
}

// ModernBERT's head is configured.
Status ConfigureModernBertHead(const JsonObject& config_json, const ModelConfig& config,
                               HeadConfig* head) {
  HeadLayerConfig& dense = head->layers.front();
  dense.bias = config_json.Bool("classifier_bias").value_or(false);
  PERGOLA_ASSIGN_OR_RETURN(dense.activation,
                           ReadActivation(config_json, "classifier_activation", "gelu"));
  dense.norm = "head.norm";
  dense.norm_bias = config.norm_bias;
  dense.norm_epsilon = config.norm_epsilon;
  const std::string pooling = config_json.String("classifier_pooling").value_or("cls");
  if (pooling != "cls" && pooling != "mean") {
    return UnimplementedError(config_json.name() + ": classifier_pooling '" + pooling +
                              "' is not supported");
  }
  head->pooling = pooling == "cls" ? PoolingKind::kCls : PoolingKind::kMean;
  return OkStatus();
}

Result<HeadConfig> ReadClassificationHead(const JsonObject& config_json, const ModelConfig& config,
                                          const formats::TensorSource& source) {
  HeadConfig head{.kind = OutputKind::kLogits, .pooling = PoolingKind::kCls};
  // Decoders: one matrix on the last token.
  if (config.positions == PositionKind::kRotary && source.Find("score.weight") != nullptr) {
    head.pooling = PoolingKind::kLastToken;
    head.layers.push_back({.linear = "score", .bias = false});
    return head;
  }
  for (const ClassifierStyle& style : kClassifierStyles) {
    if (style.architecture != config.architecture) continue;
    head.layers.push_back(
        {.linear = FirstPresent(source, style.dense), .activation = style.activation});
    if (config.architecture == "modernbert") {
      PERGOLA_RETURN_IF_ERROR(ConfigureModernBertHead(config_json, config, &head));
    }
    if (config.architecture == "deberta-v2" && config_json.String("pooler_hidden_act") == "tanh") {
      head.layers.front().activation = Epilogue::kTanh;
    } else if (config.architecture == "deberta-v2") {
      PERGOLA_ASSIGN_OR_RETURN(head.layers.front().activation,
                               ReadActivation(config_json, "pooler_hidden_act", "gelu"));
    }
    head.layers.push_back({.linear = std::string(style.classifier)});
    return head;
  }
  return UnimplementedError(config_json.name() + ": a classification head of '" +
                            config.architecture + "' is not supported");
}

// The rows of some tokens in the matrix that predicts the next one.
Result<HeadConfig> ReadTokenHead(const JsonObject& config_json, const ModelConfig& config,
                                 const formats::TensorSource& source,
                                 std::vector<std::string> tokens) {
  if (!config.causal || tokens.empty()) {
    return InvalidArgumentError(config_json.name() +
                                ": 'classifier_from_token' wants a causal model and tokens");
  }
  constexpr std::array<std::string_view, 3> kMatrices = {"lm_head", "model.embed_tokens",
                                                         "embed_tokens"};
  HeadLayerConfig layer{.linear = FirstPresent(source, kMatrices), .bias = false};
  layer.difference = tokens.size() == 2;
  if (layer.difference) std::swap(tokens[0], tokens[1]);  // ["no", "yes"]: yes minus no
  layer.tokens = std::move(tokens);
  return HeadConfig{.kind = OutputKind::kLogits,
                    .pooling = PoolingKind::kLastToken,
                    .layers = {std::move(layer)}};
}

// A head on token rows, in the model's own file or in one named after it; nullopt: neither.
std::optional<HeadConfig> FindTokenRowHead(const std::string& directory,
                                           const formats::TensorSource& source, OutputKind kind,
                                           const std::string& name, Epilogue activation) {
  HeadLayerConfig layer{.activation = activation};
  const std::string file = directory + "/" + name + ".safetensors";
  if (source.Find(name + ".weight") != nullptr) {
    layer.linear = name;
  } else if (fs::exists(file)) {
    layer.file = file;
  } else {
    return std::nullopt;
  }
  return HeadConfig{.kind = kind, .layers = {std::move(layer)}};
}

// id2label, by number.
std::vector<std::string> ReadLabels(const JsonObject& config_json) {
  const auto object = config_json.Object("id2label");
  if (!object) return {};
  std::map<int64_t, std::string> by_id;
  for (const auto& [key, label] : object->StringMembers()) {
    int64_t id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec == std::errc() && parsed.ptr == key.data() + key.size()) by_id[id] = label;
  }
  std::vector<std::string> labels;
  for (auto& [id, label] : by_id) {
    if (id != static_cast<int64_t>(labels.size())) return {};  // not 0, 1, 2, ...
    labels.push_back(std::move(label));
  }
  return labels;
}

// The format that Qwen3-Reranker was trained with (its model card).
PairTemplate Qwen3RerankerTemplate() {
  return {.prefix =
              "<|im_start|>system\nJudge whether the Document meets the requirements based on "
              "the Query and the Instruct provided. Note that the answer can only be \"yes\" or "
              "\"no\".<|im_end|>\n<|im_start|>user\n",
          .body = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}",
          .suffix = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
          .default_instruction =
              "Given a web search query, retrieve relevant passages that answer the query"};
}

}  // namespace

Result<std::vector<HeadConfig>> ReadTaskHeads(const std::string& directory,
                                              const JsonObject& config_json,
                                              const ModelConfig& config,
                                              const formats::TensorSource& source) {
  std::vector<HeadConfig> heads;
  if (auto tokens = config_json.Strings("classifier_from_token")) {
    PERGOLA_ASSIGN_OR_RETURN(HeadConfig head,
                             ReadTokenHead(config_json, config, source, std::move(*tokens)));
    heads.push_back(std::move(head));
  } else if (EndsInSequenceClassification(config_json)) {
    Result<HeadConfig> head = ReadClassificationHead(config_json, config, source);
    // In a folder that declares an embedding, the class may be left over from another training.
    if (!fs::exists(directory + "/modules.json")) {
      PERGOLA_RETURN_IF_ERROR(head.status());
      heads.push_back(std::move(*head));
    } else if (head.ok() && source.Find(head->layers.back().linear + ".weight") != nullptr) {
      heads.push_back(std::move(*head));
    }
  }
  if (auto head = FindTokenRowHead(directory, source, OutputKind::kSparse, "sparse_linear",
                                   Epilogue::kRelu)) {
    heads.push_back(std::move(*head));
  }
  if (auto head = FindTokenRowHead(directory, source, OutputKind::kMultiVector, "colbert_linear",
                                   Epilogue::kNone)) {
    head->skipped_rows = 1;  // BGE-M3 has no vector for <s>
    heads.push_back(std::move(*head));
  } else if (IsLateInteraction(config_json)) {
    heads.push_back({.kind = OutputKind::kMultiVector,
                     .layers = {HeadLayerConfig{.linear = "linear", .bias = false}}});
  }
  return heads;
}

Result<ClassifierConfig> ReadClassifier(const JsonObject& config_json, const ModelConfig& config) {
  ClassifierConfig classifier;
  if (const auto tokens = config_json.Strings("classifier_from_token")) {
    if (tokens->size() > 2) classifier.labels = *tokens;
  } else {
    classifier.labels = ReadLabels(config_json);
  }
  if (config_json.String("problem_type") == "multi_label_classification") {
    classifier.function = ScoreFunction::kSigmoid;
  }
  if (config.architecture == "qwen3" && classifier.labels.size() < 2) {
    classifier.pair_template = Qwen3RerankerTemplate();
  }
  return classifier;
}

// The dense layer before the classifier; `bert` files do not say whose kin they are, but only
// DistilBERT has no token types.
HeadLayerConfig GgufDenseLayer(const formats::TensorSource& source, const ModelConfig& config) {
  HeadLayerConfig dense{.linear = "cls", .bias = source.Find("cls.bias") != nullptr};
  if (config.architecture == "modernbert") {
    dense.activation = Epilogue::kGeluErf;
  } else {
    dense.activation = config.num_token_types == 0 ? Epilogue::kRelu : Epilogue::kTanh;
  }
  if (source.Find("cls.norm.weight") != nullptr) {
    dense.norm = "cls.norm";
    dense.norm_epsilon = config.norm_epsilon;
  }
  return dense;
}

Result<HeadConfig> ReadGgufClassifierHead(const formats::TensorSource& source,
                                          const ModelConfig& config) {
  HeadConfig head{.kind = OutputKind::kLogits,
                  .pooling = config.causal ? PoolingKind::kLastToken : PoolingKind::kCls};
  const std::string architecture(source.GetString("general.architecture").value_or(""));
  // llama.cpp's numbers: 1 mean, 2 cls.
  if (source.GetInt(architecture + ".classifier.pooling_type") == 1) {
    head.pooling = PoolingKind::kMean;
  }
  if (source.Find("cls.output.weight") == nullptr) {
    return InvalidArgumentError("GGUF pooling_type rank, but no tensor 'cls.output.weight'");
  }
  if (!config.causal) {
    if (source.Find("cls.weight") == nullptr) {
      return UnimplementedError(
          "the GGUF file has a classifier, but not the dense layer before it: llama.cpp's "
          "converter "
          "leaves out BERT's pooler; use the folder with safetensors");
    }
    head.layers.push_back(GgufDenseLayer(source, config));
  }
  // The converter stacks the rows of "yes" and "no".
  head.layers.push_back({.linear = "cls.output",
                         .bias = source.Find("cls.output.bias") != nullptr,
                         .difference = config.causal});
  return head;
}

ClassifierConfig ReadGgufClassifier(const formats::TensorSource& source,
                                    const ModelConfig& config) {
  ClassifierConfig classifier;
  if (config.causal) {
    classifier.pair_template = Qwen3RerankerTemplate();
    return classifier;
  }
  const std::string architecture(source.GetString("general.architecture").value_or(""));
  if (const auto* labels = source.GetStrings(architecture + ".classifier.output_labels")) {
    classifier.labels.assign(labels->begin(), labels->end());
  }
  return classifier;
}

}  // namespace pergola::models
