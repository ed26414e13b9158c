// How fast a model computes, cell by cell: so many texts of so many tokens on so many threads.
//
//   EngineBenchOptions options{.path = "model.gguf", .lengths = {8, 128}, .batches = {1, 32}};
//   PERGOLA_RETURN_IF_ERROR(BenchEngine(options, [](const EngineBenchCell& cell) { ... }));
//
// Texts are distinct and there is no cache. A cell's vectors are checked before its time counts:
// that of its first text against the reference kernels (unless told otherwise), every text's
// against the same text alone, bit for bit. Not the server's speed: no scheduler, no network.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops_types.h"
#include "kernels/weight_type.h"
#include "pergola/status.h"

namespace pergola::cli {

// English, lower case: a token each in most vocabularies.
inline constexpr std::array<std::string_view, 64> kBenchWords = {
    "river",  "engine",  "morning", "paper",   "green",  "signal",  "carry",    "winter",
    "garden", "simple",  "measure", "copper",  "light",  "between", "question", "harbour",
    "water",  "machine", "letter",  "quiet",   "circle", "number",  "forest",   "answer",
    "window", "market",  "silver",  "travel",  "animal", "history", "kitchen",  "library",
    "stone",  "music",   "doctor",  "yellow",  "bridge", "village", "ocean",    "theory",
    "summer", "picture", "moment",  "distant", "corner", "weather", "language", "island",
    "north",  "hammer",  "orange",  "pattern", "nature", "family",  "teacher",  "mirror",
    "cloud",  "station", "planet",  "pocket",  "record", "leather", "journey",  "engineer"};

struct EngineBenchOptions {
  std::string path;                             // a model's folder or a .gguf file
  std::vector<int64_t> lengths = {8, 32, 128};  // tokens of a text, special tokens included
  std::vector<int64_t> batches = {1, 32};       // texts of a call
  std::vector<int> threads = {1, 2};
  std::chrono::duration<double> seconds{3};  // of a cell, after warming up
  kernels::ActivationPrecision activations = kernels::ActivationPrecision::kAuto;
  kernels::WeightType weights = kernels::WeightType::kAsIs;
  // Whether the reference kernels compute the first texts, too. Without, each text is still
  // compared with itself alone: for a caller that compares `vectors` with a truth of its own.
  bool checked = true;
};

struct EngineBenchCell {
  int64_t length = 0;
  int64_t batch = 0;
  int threads = 0;
  double tokens_per_s = 0;                  // of all calls
  double ms_p50 = 0;                        // of a call
  double ms_p99 = 0;                        // of a call
  std::optional<double> cosine;             // of the first text's vector to the reference kernels'
  std::string numeric_class;                // of the products
  std::vector<std::vector<int32_t>> ids;    // of every text
  std::vector<std::vector<float>> vectors;  // their rows, not normalised
};

// Calls `report` after every cell, in the order threads, lengths, batches. Lengths over the model's
// limit are left out. Errors: of loading; INTERNAL when a vector is wrong, naming the cell.
Status BenchEngine(const EngineBenchOptions& options,
                   const std::function<void(const EngineBenchCell& cell)>& report);

// A text of `index`'s own with at least `words` words: the same in every run.
std::string BenchText(int64_t index, int64_t words);

}  // namespace pergola::cli
