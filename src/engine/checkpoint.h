// The files of a model before anything is made of them: configuration and tensors. What loads only
// a part of a model (a language model without its head, some layers) starts here.
//
//   PERGOLA_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint("models/gemma-3-270m.gguf"));
//   PERGOLA_ASSIGN_OR_RETURN(auto tokenizer, LoadTokenizer(checkpoint));
#pragma once

#include <memory>
#include <string>

#include "formats/tensor_source.h"
#include "kernels/ops.h"
#include "models/config.h"
#include "pergola/status.h"
#include "tokenizers/tokenizer.h"

namespace pergola::engine {

// Movable.
struct Checkpoint {
  std::string path;  // as given
  std::unique_ptr<formats::TensorSource> source;
  models::ModelConfig config;
};

// `path`: a directory in Hugging Face layout, a `.gguf` file or a slice. NOT_FOUND,
// INVALID_ARGUMENT, DATA_LOSS or UNIMPLEMENTED naming file, tensor or key. Reads headers only.
Result<Checkpoint> OpenCheckpoint(const std::string& path);

// The vocabulary that lies with the tensors.
Result<std::unique_ptr<tokenizers::Tokenizer>> LoadTokenizer(const Checkpoint& checkpoint);

// The dtype of most matrices' elements, the embedding table left out: what a model is called after.
DType MainDType(const formats::TensorSource& source);

// MainDType of the whole model, also where the checkpoint is a slice of it.
Result<DType> ProductDType(const Checkpoint& checkpoint);

// Which arithmetic a part of the model computes with: the same text for every slice of it. Two
// parts of one identity and one class, of the same release, together give the bits of one piece.
//
// It is derived, not measured: no value is multiplied for it. It names the kernel set and how it
// treats ProductDType, for a row of 256 inputs, which is a whole number of blocks of every type.
// That is enough because all else follows from what parts share: matrices of other types and rows
// of other lengths are treated by the same options, and there are only two, which the class tells
// apart ("widened": ActivationPrecision::kF32, also where ProductDType alone would not differ).
// Exponents, subnormal numbers and the range of the activation functions do not enter: every kernel
// set is one fixed sequence of operations, compiled without contraction and run with subnormals
// (DefaultFloatEnvironment); only "reference" calls the C library's functions, whose last bits
// depend on its version.
Result<std::string> ModelNumericClass(const Checkpoint& checkpoint, const kernels::Ops& ops,
                                      const kernels::LinearOptions& options);

// INVALID_ARGUMENT when it is none: another architecture, or one that sees later tokens.
Status CheckLanguageModel(const models::ModelConfig& config);

}  // namespace pergola::engine
