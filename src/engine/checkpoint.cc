#include "engine/checkpoint.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "formats/slice.h"
#include "tokenizers/gguf_vocabulary.h"

namespace pergola::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kLanguageModels = {"gemma3_text", "qwen3", "llama",
                                                             "mistral"};

}  // namespace

Result<Checkpoint> OpenCheckpoint(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return NotFoundError("model '" + path + "' does not exist");
  Checkpoint checkpoint;
  checkpoint.path = path;
  PERGOLA_ASSIGN_OR_RETURN(checkpoint.source, formats::OpenTensorSource(path));
  // Slices of a GGUF model carry its metadata, those of others its config.json.
  if (checkpoint.source->GetString("general.architecture")) {
    PERGOLA_ASSIGN_OR_RETURN(checkpoint.config, models::ReadGgufConfig(*checkpoint.source));
  } else {
    PERGOLA_ASSIGN_OR_RETURN(checkpoint.config, models::ReadHfConfig(path + "/config.json"));
  }
  return checkpoint;
}

Result<std::unique_ptr<tokenizers::Tokenizer>> LoadTokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.source->format() == "gguf") {
    return tokenizers::LoadTokenizerGguf(*checkpoint.source);
  }
  const std::string gguf = checkpoint.path + "/tokenizer.gguf";
  std::error_code error;
  if (checkpoint.source->format() == "slice" && fs::exists(gguf, error)) {
    PERGOLA_ASSIGN_OR_RETURN(const auto source, formats::OpenTensorSource(gguf));
    return tokenizers::LoadTokenizerGguf(*source);
  }
  return tokenizers::LoadTokenizerJson(checkpoint.path + "/tokenizer.json");
}

Result<DType> ProductDType(const Checkpoint& checkpoint) {
  if (checkpoint.source->format() != "slice") return MainDType(*checkpoint.source);
  PERGOLA_ASSIGN_OR_RETURN(const formats::SliceFacts facts,
                           formats::ReadSliceFacts(checkpoint.path));
  for (int number = 0; number < kNumDTypes; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (DTypeName(dtype) == facts.quantisation) return dtype;
  }
  return InvalidArgumentError(checkpoint.path + ": quantisation '" + facts.quantisation +
                              "' is not known");
}

Result<std::string> ModelNumericClass(const Checkpoint& checkpoint, const kernels::Ops& ops,
                                      const kernels::LinearOptions& options) {
  PERGOLA_ASSIGN_OR_RETURN(const DType dtype, ProductDType(checkpoint));
  std::string text = ops.numeric_class(dtype, options);
  if (options.activations == kernels::ActivationPrecision::kF32) text += ", widened";
  return text;
}

DType MainDType(const formats::TensorSource& source) {
  std::array<int64_t, kNumDTypes> elements = {};
  for (const formats::TensorInfo& tensor : source.tensors()) {
    // Tables are often of another type than the products.
    const bool table = tensor.name.find("embed_tokens") != std::string::npos ||
                       tensor.name.find("token_embd") != std::string::npos;
    if (tensor.view.shape.rank == 2 && !table) {
      elements[static_cast<size_t>(tensor.view.dtype)] += tensor.view.shape.elements();
    }
  }
  return static_cast<DType>(std::max_element(elements.begin(), elements.end()) - elements.begin());
}

Status CheckLanguageModel(const models::ModelConfig& config) {
  const auto known = std::find(kLanguageModels.begin(), kLanguageModels.end(), config.architecture);
  if (known == kLanguageModels.end()) {
    return InvalidArgumentError("a '" + config.architecture +
                                "' model predicts no tokens: expected gemma3_text, qwen3, llama or "
                                "mistral");
  }
  if (!config.causal) {
    return InvalidArgumentError("the model is no language model: its tokens see later ones");
  }
  return OkStatus();
}

}  // namespace pergola::engine
