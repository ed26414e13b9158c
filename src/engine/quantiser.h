// Writes a model as a GGUF file with its matrices in a smaller type.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto quantiser, Quantiser::Open("model-F32.gguf"));
//   PERGOLA_RETURN_IF_ERROR(quantiser->Write(quantiser->Uniform(DType::kQ8_0), "model-Q8_0.gguf"));
//
// What is chosen is the type of a unit: a layer's matrices, or the token table. Everything else
// (norms, biases, positions, heads, metadata, the vocabulary) is copied as it is, with the names
// and types that it has; a folder with safetensors gets llama.cpp's names first (gguf_contents.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "engine/gguf_contents.h"
#include "pergola/status.h"

namespace pergola::engine {

// The type of each unit; one that is missing keeps what it has.
using QuantisationPlan = std::map<std::string, DType>;

struct PlannedTensor {
  std::string name;
  DType before, after;
  int64_t bytes_before, bytes_after;
};

// Immutable, thread-compatible.
class Quantiser {
 public:
  // `path`: a GGUF file or a folder with safetensors. Errors as ReadGgufContents().
  static Result<std::unique_ptr<Quantiser>> Open(const std::string& path);

  // "token_embd", "blk.0", ...: those with at least one matrix, in file order.
  const std::vector<std::string>& units() const { return units_; }
  // Every unit in `type`; under Q4_0 the token table is Q8_0 (llama.cpp keeps it above 4 bits too).
  QuantisationPlan Uniform(DType type) const;

  // What Write makes of every tensor. A matrix stays as it is when its rows are no whole number of
  // blocks, or when its own type is no larger than the wanted one.
  std::vector<PlannedTensor> Describe(const QuantisationPlan& plan) const;

  // Writes beside `path`, reads that back (every key-value and tensor must have the bytes that were
  // meant, and of a folder CheckContentsKept() holds) and renames it to `path`. The same plan gives
  // the same bytes. INVALID_ARGUMENT naming a tensor with a value that is not finite; DATA_LOSS
  // when the file reads back differently; otherwise as formats::WriteFileWhole. Needs memory for
  // the quantised matrices.
  Status Write(const QuantisationPlan& plan, const std::string& path) const;

 private:
  explicit Quantiser(GgufContents contents) : contents_(std::move(contents)) {}
  DType TypeOf(const formats::TensorInfo& tensor, const QuantisationPlan& plan) const;

  GgufContents contents_;
  std::vector<std::string> units_;
};

}  // namespace pergola::engine
