#include "models/pipeline_config.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "models/json_object.h"

namespace pergola::models {
namespace {

namespace fs = std::filesystem;
using kernels::Epilogue;
using kernels::PoolingKind;

Result<PoolingKind> ReadPooling(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Read(path));
  if (json.Bool("include_prompt") == false) {
    return UnimplementedError(path + ": include_prompt = false is not supported");
  }
  // Newer files name the mode; older ones set one flag of several.
  if (const auto mode = json.String("pooling_mode")) {
    if (*mode == "mean") return PoolingKind::kMean;
    if (*mode == "cls") return PoolingKind::kCls;
    if (*mode == "lasttoken") return PoolingKind::kLastToken;
    return UnimplementedError(path + ": pooling mode '" + *mode + "' is not supported");
  }
  std::vector<std::string> modes;
  for (const std::string& key : json.Keys()) {
    if (key.starts_with("pooling_mode_") && json.Bool(key) == true) modes.push_back(key);
  }
  if (modes.size() != 1) {
    return UnimplementedError(path + ": " + std::to_string(modes.size()) +
                              " pooling modes are set, exactly one is supported");
  }
  if (modes[0] == "pooling_mode_mean_tokens") return PoolingKind::kMean;
  if (modes[0] == "pooling_mode_cls_token") return PoolingKind::kCls;
  if (modes[0] == "pooling_mode_lasttoken") return PoolingKind::kLastToken;
  return UnimplementedError(path + ": '" + modes[0] + "' is not supported");
}

// A Python class path: torch.nn.modules.linear.Identity, torch.nn.modules.activation.Tanh.
Result<Epilogue> ReadActivationClass(const JsonObject& json) {
  const std::string path =
      json.String("activation_function").value_or("torch.nn.modules.activation.Tanh");
  const std::string_view name = std::string_view(path).substr(path.find_last_of('.') + 1);
  if (name == "Identity") return Epilogue::kNone;
  if (name == "Tanh") return Epilogue::kTanh;
  if (name == "ReLU") return Epilogue::kRelu;
  if (name == "GELU") return Epilogue::kGeluErf;
  if (name == "SiLU") return Epilogue::kSilu;
  return UnimplementedError(json.name() + ": activation '" + path + "' is not supported");
}

Result<HeadLayerConfig> ReadDense(const std::string& directory) {
  PERGOLA_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Read(directory + "/config.json"));
  HeadLayerConfig dense{.file = directory, .linear = "linear"};
  PERGOLA_ASSIGN_OR_RETURN(dense.inputs, json.RequireInt("in_features", 1, 1 << 16));
  PERGOLA_ASSIGN_OR_RETURN(dense.outputs, json.RequireInt("out_features", 1, 1 << 16));
  dense.bias = json.Bool("bias").value_or(true);
  PERGOLA_ASSIGN_OR_RETURN(dense.activation, ReadActivationClass(json));
  return dense;
}

// A module's folder: inside the model's own, so that a hostile modules.json reads nothing else.
Result<std::string> ModuleDirectory(const std::string& directory, const JsonObject& module) {
  const std::string path = module.String("path").value_or("");
  const fs::path relative(path);
  if (relative.is_absolute() || std::any_of(relative.begin(), relative.end(),
                                            [](const fs::path& part) { return part == ".."; })) {
    return InvalidArgumentError(module.name() + ": path '" + path + "' leaves the model's folder");
  }
  return (fs::path(directory) / relative).string();
}

// Pooling, then Dense layers: an embedding. Dense layers alone: a vector per token.
Status ReadModules(const std::string& directory, PipelineConfig* pipeline) {
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<JsonObject> modules,
                           JsonObject::ReadArray(directory + "/modules.json"));
  HeadConfig head{.kind = OutputKind::kMultiVector};
  for (const JsonObject& module : modules) {
    PERGOLA_ASSIGN_OR_RETURN(const std::string folder, ModuleDirectory(directory, module));
    const std::string type = module.String("type").value_or("");
    const std::string_view name = std::string_view(type).substr(type.find_last_of('.') + 1);
    const bool pooled = head.kind == OutputKind::kEmbedding;
    if (name == "Transformer") continue;
    if (name == "Pooling" && head.layers.empty()) {
      head.kind = OutputKind::kEmbedding;
      PERGOLA_ASSIGN_OR_RETURN(head.pooling, ReadPooling(folder + "/config.json"));
    } else if (name == "Dense" && !pipeline->normalise) {
      PERGOLA_ASSIGN_OR_RETURN(HeadLayerConfig dense, ReadDense(folder));
      head.layers.push_back(std::move(dense));
    } else if (name == "Normalize") {
      pipeline->normalise = true;
    } else if (name == "FlexibleQuantizer" && pooled) {
      pipeline->output = OutputConvention::kTanhInt8;  // pplx-embed's own last module
    } else {
      return UnimplementedError(module.name() + ": module '" + type +
                                "' is not supported in this place");
    }
  }
  if (head.kind == OutputKind::kMultiVector && head.layers.empty()) {
    return UnimplementedError(directory + "/modules.json: neither Pooling nor Dense");
  }
  pipeline->heads.push_back(std::move(head));
  return OkStatus();
}

Status CheckDefaultPrompt(const std::string& place, const PipelineConfig& pipeline) {
  const std::string& name = pipeline.default_prompt_name;
  if (name.empty() || pipeline.prompts.contains(name)) return OkStatus();
  return InvalidArgumentError(place + ": default_prompt_name '" + name +
                              "' is not among the prompts");
}

// OK when the file does not exist.
Status ReadPrompts(const std::string& path, PipelineConfig* pipeline) {
  if (!fs::exists(path)) return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Read(path));
  if (const auto prompts = json.Object("prompts")) pipeline->prompts = prompts->StringMembers();
  pipeline->default_prompt_name = json.String("default_prompt_name").value_or("");
  return CheckDefaultPrompt(path, *pipeline);
}

// Classifiers and late-interaction models give no embedding unless they declare it; sparse weights
// come beside one.
bool EmbedsToo(const PipelineConfig& pipeline) {
  return pipeline.FindHead(OutputKind::kLogits) == nullptr &&
         (pipeline.FindHead(OutputKind::kMultiVector) == nullptr ||
          pipeline.FindHead(OutputKind::kSparse) != nullptr);
}

// For a folder that does not say.
void AssumeEmbedding(const ModelConfig& config, PipelineConfig* pipeline) {
  pipeline->heads.push_back(
      {.pooling = config.causal ? PoolingKind::kLastToken : PoolingKind::kMean});
  pipeline->normalise = true;
  if (config.architecture == "bidirectional_pplx_qwen3") {
    pipeline->normalise = false;
    pipeline->output = OutputConvention::kTanhInt8;
  }
}

bool IsEmbeddingGemma(const ModelConfig& config) {
  return config.architecture == "gemma3_text" && !config.causal && config.hidden_size == 768;
}

std::vector<int64_t> KnownMatryoshkaWidths(const ModelConfig& config) {
  if (IsEmbeddingGemma(config)) return {768, 512, 256, 128};
  return {};
}

// GGUF files carry no prompts; these are the model card's.
std::map<std::string, std::string, std::less<>> KnownPrompts(const ModelConfig& config) {
  if (!IsEmbeddingGemma(config)) return {};
  return {{"query", "task: search result | query: "},
          {"document", "title: none | text: "},
          {"Clustering", "task: clustering | query: "},
          {"Classification", "task: classification | query: "},
          {"InstructionRetrieval", "task: code retrieval | query: "},
          {"Retrieval-query", "task: search result | query: "},
          {"Retrieval-document", "title: none | text: "},
          {"STS", "task: sentence similarity | query: "},
          {"Summarization", "task: summarization | query: "}};
}

// The keys of our own.
Status ReadGgufTexts(const formats::TensorSource& source, PipelineConfig* pipeline) {
  if (const auto limit = source.GetInt(kGgufMaxTokensKey)) {
    if (*limit < 1) return InvalidArgumentError(std::string(kGgufMaxTokensKey) + " is below 1");
    pipeline->max_tokens = std::min(pipeline->max_tokens, *limit);
  }
  const auto* names = source.GetStrings(kGgufPromptNamesKey);
  const auto* texts = source.GetStrings(kGgufPromptTextsKey);
  if (names == nullptr && texts == nullptr) return OkStatus();
  if (names == nullptr || texts == nullptr || names->size() != texts->size()) {
    return InvalidArgumentError(std::string(kGgufPromptNamesKey) + " and " + kGgufPromptTextsKey +
                                " are not two arrays of strings of equal length");
  }
  pipeline->prompts.clear();
  for (size_t i = 0; i < names->size(); ++i) {
    pipeline->prompts.emplace((*names)[i], (*texts)[i]);
  }
  pipeline->default_prompt_name = source.GetString(kGgufDefaultPromptKey).value_or("");
  return CheckDefaultPrompt("GGUF", *pipeline);
}

}  // namespace

const HeadConfig* PipelineConfig::FindHead(OutputKind kind) const {
  const auto head = std::find_if(heads.begin(), heads.end(),
                                 [&](const HeadConfig& each) { return each.kind == kind; });
  return head == heads.end() ? nullptr : &*head;
}

Result<PipelineConfig> ReadSentencePipeline(const std::string& directory, const ModelConfig& config,
                                            const formats::TensorSource& source) {
  PipelineConfig pipeline;
  pipeline.max_tokens = config.max_positions;
  pipeline.matryoshka_widths = KnownMatryoshkaWidths(config);
  PERGOLA_ASSIGN_OR_RETURN(const JsonObject config_json,
                           JsonObject::Read(directory + "/config.json"));
  const bool declared = fs::exists(directory + "/modules.json");
  if (declared) PERGOLA_RETURN_IF_ERROR(ReadModules(directory, &pipeline));
  PERGOLA_ASSIGN_OR_RETURN(std::vector<HeadConfig> heads,
                           ReadTaskHeads(directory, config_json, config, source));
  for (HeadConfig& head : heads) {
    if (pipeline.FindHead(head.kind) == nullptr) pipeline.heads.push_back(std::move(head));
  }
  if (pipeline.FindHead(OutputKind::kLogits) != nullptr) {
    PERGOLA_ASSIGN_OR_RETURN(pipeline.classifier, ReadClassifier(config_json, config));
  }
  if (!declared && EmbedsToo(pipeline)) AssumeEmbedding(config, &pipeline);
  const auto classes = config_json.Strings("architectures").value_or(std::vector<std::string>());
  if (std::find(classes.begin(), classes.end(), "PPLXQwen3ContextualModel") != classes.end()) {
    pipeline.chunk_separator = "<|endoftext|>";
  }
  const std::string limits = directory + "/sentence_bert_config.json";
  if (fs::exists(limits)) {
    PERGOLA_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Read(limits));
    if (const auto limit = json.Int("max_seq_length"); limit && *limit > 0) {
      pipeline.max_tokens = std::min(pipeline.max_tokens, *limit);
    }
  }
  PERGOLA_RETURN_IF_ERROR(ReadPrompts(directory + "/config_sentence_transformers.json", &pipeline));
  return pipeline;
}

Result<PipelineConfig> ReadGgufPipeline(const formats::TensorSource& source,
                                        const ModelConfig& config) {
  const std::string architecture(source.GetString("general.architecture").value_or(""));
  PipelineConfig pipeline;
  pipeline.max_tokens = config.max_positions;
  pipeline.matryoshka_widths = KnownMatryoshkaWidths(config);
  pipeline.normalise = source.GetBool(kGgufNormaliseKey).value_or(true);
  pipeline.prompts = KnownPrompts(config);
  PERGOLA_RETURN_IF_ERROR(ReadGgufTexts(source, &pipeline));
  // llama.cpp's numbers: 0 none, 1 mean, 2 cls, 3 last, 4 rank. Its converter leaves classifiers
  // without one.
  const bool classifies = source.Find("cls.output.weight") != nullptr;
  const int64_t pooling = source.GetInt(architecture + ".pooling_type")
                              .value_or(classifies      ? 4
                                        : config.causal ? 3
                                                        : 1);
  if (pooling == 4) {
    PERGOLA_ASSIGN_OR_RETURN(HeadConfig head, ReadGgufClassifierHead(source, config));
    pipeline.heads.push_back(std::move(head));
    pipeline.classifier = ReadGgufClassifier(source, config);
    return pipeline;
  }
  if (pooling < 1 || pooling > 3) {
    return UnimplementedError("GGUF pooling_type " + std::to_string(pooling) + " is not supported");
  }
  HeadConfig head{.pooling = pooling == 1   ? PoolingKind::kMean
                             : pooling == 2 ? PoolingKind::kCls
                                            : PoolingKind::kLastToken};
  for (const char* name : {"dense_2", "dense_3"}) {
    const formats::TensorInfo* info = source.Find(std::string(name) + ".weight");
    if (info != nullptr) head.layers.push_back({.linear = name, .bias = false});
  }
  pipeline.heads.push_back(std::move(head));
  return pipeline;
}

}  // namespace pergola::models
