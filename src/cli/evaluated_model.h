// A model's vectors of many texts, for `compare` and `eval`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pergola/pergola.h"

namespace pergola::cli {

struct EvaluatedModel {
  std::string description;
  int64_t width = 0;
  std::vector<float> values;  // rows end to end, as the model gives them
  double tokens_per_second = 0.0;
  size_t rows() const { return width == 0 ? 0 : values.size() / static_cast<size_t>(width); }
};

// `model`, `weights`: what --model and --weights mean everywhere. Without a cache: speed is of
// computing.
Result<Engine> OpenForEvaluation(const std::string& model, bool offline,
                                 const std::string& weights = "auto");

// Texts that are too long are cut. `prompt_name`: empty = the model's default.
Result<EvaluatedModel> EmbedForEvaluation(const Engine& engine,
                                          const std::vector<std::string>& texts,
                                          const std::string& prompt_name);

}  // namespace pergola::cli
