#include "engine/gguf_contents.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <utility>

#include "engine/checkpoint.h"
#include "engine/model_files.h"
#include "formats/gguf_writer.h"
#include "kernels/dequantise.h"
#include "models/gguf_export.h"
#include "models/json_object.h"
#include "models/pipeline_config.h"
#include "tokenizers/gguf_export.h"

namespace pergola::engine {
namespace {

namespace fs = std::filesystem;
using kernels::PoolingKind;
using models::GgufChange;
using models::PipelineConfig;

// Tensors are what the contents hold views of.
class Tensors {
 public:
  explicit Tensors(GgufContents* contents) : contents_(*contents) {}

  // INVALID_ARGUMENT naming a tensor of another shape than the configuration says.
  Status Add(models::GgufTensor tensor, const models::ModelConfig& config) {
    TensorView view = tensor.view;
    if (tensor.change == GgufChange::kSkipRows) {
      if (view.shape.rank != 2 || view.rows() <= config.position_offset) {
        return InvalidArgumentError(tensor.name + " has too few rows: the first " +
                                    std::to_string(config.position_offset) + " are for padding");
      }
      view.data = view.row(config.position_offset);
      view.shape = Shape{view.rows() - config.position_offset, view.cols()};
    }
    const bool table = tensor.name == "position_embd.weight" || tensor.name == "token_types.weight";
    if (view.shape.rank != 2 || table) view = Widened(view);
    if (tensor.change == GgufChange::kAddOne) view = PlusOne(view);
    if (tensor.change == GgufChange::kInterleaveHeads) {
      const int64_t rows = view.shape.rank == 2 ? view.rows() : view.cols();
      if (config.head_width < 2 || config.head_width % 2 != 0 || rows % config.head_width != 0) {
        return InvalidArgumentError(tensor.name + " has " + std::to_string(rows) +
                                    " rows, which are no heads of " +
                                    std::to_string(config.head_width));
      }
      view = Interleaved(view, config);
    }
    contents_.tensors.push_back({std::move(tensor.name), view, 0, 0});
    return OkStatus();
  }

 private:
  std::byte* Buffer(int64_t bytes) {
    return contents_.buffers.emplace_back(static_cast<size_t>(bytes)).data();
  }

  TensorView Widened(const TensorView& view) {
    if (view.dtype == DType::kF32) return view;
    TensorView wide{.data = nullptr, .dtype = DType::kF32, .shape = view.shape};
    std::byte* bytes = Buffer(wide.bytes());
    wide.data = bytes;
    for (int64_t row = 0; row < view.rows(); ++row) {
      kernels::DequantiseRow(view.dtype, view.row(row), view.cols(),
                             reinterpret_cast<float*>(bytes + row * wide.row_bytes()));
    }
    return wide;
  }

  // `view`: F32.
  TensorView PlusOne(TensorView view) {
    std::byte* bytes = Buffer(view.bytes());
    for (int64_t i = 0; i < view.shape.elements(); ++i) {
      float value = 0;
      std::memcpy(&value, view.data + i * static_cast<int64_t>(sizeof(float)), sizeof(float));
      value += 1.0f;
      std::memcpy(bytes + i * static_cast<int64_t>(sizeof(float)), &value, sizeof(float));
    }
    view.data = bytes;
    return view;
  }

  // Rows of a matrix, or values of a bias.
  TensorView Interleaved(TensorView view, const models::ModelConfig& config) {
    const int64_t half = config.head_width / 2;
    const bool matrix = view.shape.rank == 2;
    const int64_t rows = matrix ? view.rows() : view.cols();
    const int64_t row_bytes = matrix ? view.row_bytes() : static_cast<int64_t>(sizeof(float));
    std::byte* bytes = Buffer(view.bytes());
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t head = row / config.head_width * config.head_width;
      const int64_t in_head = row - head;
      const int64_t from = head + in_head % 2 * half + in_head / 2;
      std::memcpy(bytes + row * row_bytes, view.data + from * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
    view.data = bytes;
    return view;
  }

  GgufContents& contents_;
};

// What a GGUF file has no place for.
Status CheckPipeline(const std::string& architecture, const PipelineConfig& pipeline) {
  if (pipeline.heads.size() != 1 || pipeline.heads[0].kind != OutputKind::kEmbedding) {
    return UnimplementedError(
        "only models of embeddings are converted, not classifiers, sparse or "
        "multi-vector ones");
  }
  if (pipeline.output != models::OutputConvention::kScaled || !pipeline.chunk_separator.empty()) {
    return UnimplementedError(
        "a GGUF file cannot say that embeddings are read in a way of their own");
  }
  const auto& layers = pipeline.heads[0].layers;
  const bool plain = std::all_of(layers.begin(), layers.end(), [](const auto& layer) {
    return !layer.bias && layer.activation == kernels::Epilogue::kNone && layer.norm.empty();
  });
  if (!layers.empty() && (architecture != "gemma-embedding" || layers.size() != 2 || !plain)) {
    return UnimplementedError(
        "Dense modules have a place in GGUF files of EmbeddingGemma only: two, "
        "without bias and activation");
  }
  return OkStatus();
}

void SetPipeline(const PipelineConfig& pipeline, const std::string& architecture, bool declared,
                 formats::GgufWriter* writer) {
  const PoolingKind pooling = pipeline.heads[0].pooling;
  // Of a language model nothing is said: it may be used as one.
  if (declared) {
    writer->SetUint32(architecture + ".pooling_type", pooling == PoolingKind::kMean  ? 1
                                                      : pooling == PoolingKind::kCls ? 2
                                                                                     : 3);
  }
  if (!pipeline.normalise) writer->SetBool(models::kGgufNormaliseKey, false);
  writer->SetUint32(models::kGgufMaxTokensKey, static_cast<uint32_t>(pipeline.max_tokens));
  if (pipeline.prompts.empty()) return;
  std::vector<std::string> names, texts;
  for (const auto& [name, text] : pipeline.prompts) {
    names.push_back(name);
    texts.push_back(text);
  }
  writer->SetStrings(models::kGgufPromptNamesKey, names);
  writer->SetStrings(models::kGgufPromptTextsKey, texts);
  if (!pipeline.default_prompt_name.empty()) {
    writer->SetString(models::kGgufDefaultPromptKey, pipeline.default_prompt_name);
  }
}

Status AddDense(const PipelineConfig& pipeline, const models::ModelConfig& config,
                const std::string& architecture, GgufContents* contents,
                formats::GgufWriter* writer) {
  int number = 2;
  for (const models::HeadLayerConfig& layer : pipeline.heads[0].layers) {
    PERGOLA_ASSIGN_OR_RETURN(auto source, formats::OpenTensorSource(layer.file));
    PERGOLA_ASSIGN_OR_RETURN(const TensorView view, source->Get(layer.linear + ".weight"));
    contents->sources.push_back(std::move(source));
    const std::string name = "dense_" + std::to_string(number++);
    PERGOLA_RETURN_IF_ERROR(
        Tensors(contents).Add({.name = name + ".weight", .view = view}, config));
    const std::string prefix = architecture + "." + name;
    writer->SetUint32(prefix + "_feat_in", static_cast<uint32_t>(view.cols()));
    writer->SetUint32(prefix + "_feat_out", static_cast<uint32_t>(view.rows()));
  }
  return OkStatus();
}

// Ids of the special tokens that tokenizer_config.json names; nothing without the file.
class NamedTokens {
 public:
  static Result<NamedTokens> Read(const std::string& directory,
                                  const tokenizers::Tokenizer& tokenizer) {
    NamedTokens named(tokenizer);
    const std::string path = directory + "/tokenizer_config.json";
    if (!fs::exists(path)) return named;
    PERGOLA_ASSIGN_OR_RETURN(named.json_, models::JsonObject::Read(path));
    return named;
  }

  // `name`: "pad_token", a string or an object with `content`.
  std::optional<uint32_t> Find(std::string_view name) const {
    if (!json_) return std::nullopt;
    std::string content = json_->String(name).value_or("");
    if (const auto object = json_->Object(name)) content = object->String("content").value_or("");
    const tokenizers::TokenId id = content.empty() ? -1 : tokenizer_.TokenToId(content);
    return id < 0 ? std::nullopt : std::optional<uint32_t>(id);
  }

 private:
  explicit NamedTokens(const tokenizers::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  const tokenizers::Tokenizer& tokenizer_;
  std::optional<models::JsonObject> json_;
};

void SetSpecialTokens(const tokenizers::GgufVocabularyFacts& facts, const NamedTokens& named,
                      const models::ModelConfig& config, formats::GgufWriter* writer) {
  const auto set = [&](const char* key, std::optional<uint32_t> id) {
    if (id) writer->SetUint32("tokenizer.ggml." + std::string(key), *id);
  };
  // What stands around a text goes first: readers add these.
  const auto first = [](const std::vector<tokenizers::TokenId>& ids) {
    return ids.empty() ? std::nullopt : std::optional<uint32_t>(ids[0]);
  };
  std::optional<uint32_t> bos = first(facts.before), eos = first(facts.after);
  if (!bos) bos = named.Find("bos_token");
  if (!eos) eos = named.Find("eos_token");
  if (!eos && !config.end_ids.empty()) eos = static_cast<uint32_t>(config.end_ids[0]);
  set("bos_token_id", bos);
  set("eos_token_id", eos);
  set("unknown_token_id", facts.unknown);
  set("seperator_token_id", facts.model == "bert" ? eos : named.Find("sep_token"));
  set("padding_token_id", named.Find("pad_token"));
  set("mask_token_id", named.Find("mask_token"));
  writer->SetBool("tokenizer.ggml.add_bos_token", !facts.before.empty());
  writer->SetBool("tokenizer.ggml.add_eos_token", !facts.after.empty());
  writer->SetBool("tokenizer.ggml.add_sep_token", false);
}

void SetVocabulary(const tokenizers::GgufVocabularyFacts& facts, formats::GgufWriter* writer) {
  const auto key = [](const char* name) { return "tokenizer.ggml." + std::string(name); };
  const auto set_bool = [&](const char* name, std::optional<bool> value) {
    if (value) writer->SetBool(key(name), *value);
  };
  writer->SetString(key("model"), facts.model);
  writer->SetString(key("pre"), facts.pre);
  writer->SetStrings(key("tokens"), facts.tokens);
  writer->SetInt32s(key("token_type"), facts.token_type);
  if (!facts.scores.empty()) writer->SetFloat32s(key("scores"), facts.scores);
  if (!facts.merges.empty()) writer->SetStrings(key("merges"), facts.merges);
  if (!facts.precompiled_charsmap.empty()) {
    writer->SetBytes(key("precompiled_charsmap"), facts.precompiled_charsmap);
  }
  set_bool("normalizer.lowercase", facts.lowercase);
  set_bool("normalizer.strip_accents", facts.strip_accents);
  set_bool("add_space_prefix", facts.add_space_prefix);
  set_bool("remove_extra_whitespaces", facts.remove_extra_whitespaces);
}

void SetConfiguration(const models::GgufModel& model, const std::string& name,
                      formats::GgufWriter* writer) {
  writer->SetString("general.architecture", model.architecture);
  writer->SetString("general.type", "model");
  if (!name.empty()) writer->SetString("general.name", name);
  for (const models::GgufSetting& setting : model.settings) {
    if (const auto* number = std::get_if<uint32_t>(&setting.value)) {
      writer->SetUint32(setting.key, *number);
    } else if (const auto* real = std::get_if<float>(&setting.value)) {
      writer->SetFloat32(setting.key, *real);
    } else if (const auto* flag = std::get_if<bool>(&setting.value)) {
      writer->SetBool(setting.key, *flag);
    } else {
      writer->SetString(setting.key, std::get<std::string>(setting.value));
    }
  }
}

Result<GgufContents> Convert(Checkpoint checkpoint) {
  const std::string& directory = checkpoint.path;
  const models::ModelConfig& config = checkpoint.config;
  GgufContents contents;
  contents.path = directory;
  contents.converted = true;
  PERGOLA_ASSIGN_OR_RETURN(models::GgufModel model,
                           models::DescribeAsGguf(config, *checkpoint.source));
  PERGOLA_ASSIGN_OR_RETURN(const PipelineConfig pipeline,
                           models::ReadSentencePipeline(directory, config, *checkpoint.source));
  PERGOLA_RETURN_IF_ERROR(CheckPipeline(model.architecture, pipeline));

  formats::GgufWriter writer;
  SetConfiguration(model, fs::path(directory).lexically_normal().filename().string(), &writer);
  SetPipeline(pipeline, model.architecture,
              !config.causal || fs::exists(directory + "/modules.json"), &writer);
  if (config.num_token_types > 0 || model.architecture.ends_with("bert")) {
    writer.SetUint32("tokenizer.ggml.token_type_count",
                     static_cast<uint32_t>(std::max<int64_t>(config.num_token_types, 1)));
  }
  PERGOLA_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(checkpoint));
  PERGOLA_ASSIGN_OR_RETURN(const tokenizers::GgufVocabularyFacts facts,
                           tokenizers::ReadGgufFacts(directory + "/tokenizer.json",
                                                     static_cast<size_t>(config.vocab_size)));
  SetVocabulary(facts, &writer);
  PERGOLA_ASSIGN_OR_RETURN(const NamedTokens named, NamedTokens::Read(directory, *tokenizer));
  SetSpecialTokens(facts, named, config, &writer);

  for (models::GgufTensor& tensor : model.tensors)
    PERGOLA_RETURN_IF_ERROR(Tensors(&contents).Add(std::move(tensor), config));
  PERGOLA_RETURN_IF_ERROR(AddDense(pipeline, config, model.architecture, &contents, &writer));
  contents.sources.push_back(std::move(checkpoint.source));
  contents.header = std::make_unique<const std::string>(writer.Bytes());
  PERGOLA_ASSIGN_OR_RETURN(
      contents.key_values,
      formats::ReadGgufKeyValues(std::as_bytes(std::span<const char>(*contents.header))));
  return contents;
}

}  // namespace

Result<GgufContents> ReadGgufContents(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(path));
  const formats::TensorSource& source = *checkpoint.source;
  if (source.format() == "safetensors") return Convert(std::move(checkpoint));
  if (source.format() != "gguf" || source.files().size() != 1) {
    return UnimplementedError("'" + path + "' is " + std::string(source.format()) + " in " +
                              std::to_string(source.files().size()) +
                              " files: neither one GGUF file nor a folder with safetensors");
  }
  if (!source.unsupported().empty()) {
    const formats::UnsupportedTensor& tensor = source.unsupported().front();
    return UnimplementedError("tensor '" + tensor.name + "' is of " + tensor.type +
                              ", which cannot be copied");
  }
  GgufContents contents;
  contents.path = path;
  contents.tensors.assign(source.tensors().begin(), source.tensors().end());
  contents.sources.push_back(std::move(checkpoint.source));
  PERGOLA_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  contents.file = std::make_unique<const MappedFile>(std::move(file));
  PERGOLA_ASSIGN_OR_RETURN(contents.key_values, formats::ReadGgufKeyValues(contents.file->bytes()));
  return contents;
}

Status CheckContentsKept(const GgufContents& contents, const std::string& path) {
  if (!contents.converted) return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(const ModelFiles original, OpenModelFiles(contents.path));
  PERGOLA_ASSIGN_OR_RETURN(const ModelFiles written, OpenModelFiles(path));
  PERGOLA_RETURN_IF_ERROR(models::CheckSameComputation(original.config, written.config));
  const PipelineConfig& a = original.pipeline;
  const PipelineConfig& b = written.pipeline;
  if (b.heads.size() != 1 || a.heads[0].pooling != b.heads[0].pooling ||
      a.heads[0].layers.size() != b.heads[0].layers.size() || a.normalise != b.normalise ||
      a.max_tokens != b.max_tokens || a.prompts != b.prompts ||
      a.default_prompt_name != b.default_prompt_name) {
    return UnimplementedError("a GGUF file of '" + original.config.architecture +
                              "' cannot say the folder's pooling, limit and prompts");
  }
  return tokenizers::CheckSameIds(*original.tokenizer, *written.tokenizer);
}

}  // namespace pergola::engine
