// LoRA adapters as PEFT writes them: a folder with adapter_config.json and
// adapter_model.safetensors, merged into the base model's weights at load.
//
//   if (IsLoraAdapter(path)) {
//     PERGOLA_ASSIGN_OR_RETURN(std::string base, LoraBase(path));
//     PERGOLA_ASSIGN_OR_RETURN(MergedModel merged, MergeLora(std::move(source), path, ops));
//   }
//
// A tensor W with matrices A [r, K] and B [N, r] becomes W + scale * B A, in f32; all others stay
// mapped. Configuration, tokenizer and pipeline are the base's. Several adapters of one base are
// several models, which share what is mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "formats/tensor_source.h"
#include "kernels/ops.h"
#include "pergola/status.h"

namespace pergola::engine {

// True for a folder with an adapter and without a model.
bool IsLoraAdapter(const std::string& directory);

// The folder of the model that the adapter was trained on: its `base_model_name_or_path`, taken
// from the adapter's own folder where it is relative. NOT_FOUND when there is no such folder.
Result<std::string> LoraBase(const std::string& directory);

struct MergedModel {
  std::unique_ptr<formats::TensorSource> source;
  int64_t owned_bytes = 0;  // of the rows that take the place of mapped ones
};

// `base` with the adapter's matrices merged; it keeps `base` and its mapping. UNIMPLEMENTED naming
// a setting or a tensor that would change results and is not supported; NOT_FOUND or
// INVALID_ARGUMENT naming a tensor without a counterpart in the base, or of another shape.
Result<MergedModel> MergeLora(std::unique_ptr<formats::TensorSource> base,
                              const std::string& directory, kernels::Ops& ops);

}  // namespace pergola::engine
