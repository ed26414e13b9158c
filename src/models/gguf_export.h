// A checkpoint's configuration and tensors under the names that GGUF files have for them: the way
// back from ReadGgufConfig().
//
//   PERGOLA_ASSIGN_OR_RETURN(GgufModel model, DescribeAsGguf(config, source));
//   ... written, and its configuration read back ...
//   PERGOLA_RETURN_IF_ERROR(CheckSameComputation(config, read_back));
//
// Vocabulary, pooling and Dense modules are not here: engine/gguf_conversion.h puts all together.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "formats/tensor_source.h"
#include "models/config.h"
#include "pergola/status.h"

namespace pergola::models {

// What becomes of a tensor's values on the way, always in f32.
enum class GgufChange {
  kNone,
  kAddOne,           // norms that multiply by 1 + w
  kSkipRows,         // rows of the position table before that of position 0
  kInterleaveHeads,  // row 2 k + j of a head is row j W/2 + k of the checkpoint's
};

struct GgufTensor {
  std::string name;
  TensorView view;  // of the checkpoint's source
  GgufChange change = GgufChange::kNone;
};

// A key-value; `key` as in the file.
struct GgufSetting {
  std::string key;
  std::variant<uint32_t, float, bool, std::string> value;
};

struct GgufModel {
  std::string architecture;           // general.architecture
  std::vector<GgufSetting> settings;  // <architecture>.*
  std::vector<GgufTensor> tensors;    // in the checkpoint's order
};

// Of a checkpoint with Hugging Face names. Views live as long as `source`. UNIMPLEMENTED naming an
// architecture that GGUF files have no names for, or a tensor that would be lost; what only
// training or another task uses (poolers, masked language model heads) is left out.
Result<GgufModel> DescribeAsGguf(const ModelConfig& config, const formats::TensorSource& source);

// UNIMPLEMENTED naming the first setting that computes something else in the GGUF file than in the
// checkpoint: one that the format has no key for.
Status CheckSameComputation(const ModelConfig& checkpoint, const ModelConfig& gguf);

}  // namespace pergola::models
