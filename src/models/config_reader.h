// What reading the configuration of any architecture needs: checked sizes, activations, rotary
// positions, from config.json in both of its spellings and from GGUF metadata.
//
// Each architecture's file has two functions over these, JSON and GGUF to ModelConfig, which
// registry.cc lists.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "formats/tensor_source.h"
#include "models/config.h"
#include "models/json_object.h"
#include "pergola/status.h"

namespace pergola::models {

inline constexpr int64_t kMaxWidth = 1 << 16;
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxVocab = 1 << 24;
inline constexpr int64_t kMaxPositions = 1 << 22;
inline constexpr int64_t kMaxRotaryPositions = 1 << 17;

// Keys of the same number, which differ between architectures.
struct SizeKeys {
  std::string_view hidden_size = "hidden_size";
  std::string_view num_layers = "num_hidden_layers";
  std::string_view num_heads = "num_attention_heads";
  std::string_view intermediate_size = "intermediate_size";
  std::string_view max_positions = "max_position_embeddings";
};

// The sizes that every architecture has. num_kv_heads and head_width come from their own keys where
// they are present, else from the number of heads; attention_scale is W^-0.5. INVALID_ARGUMENT
// naming file and key for all.
Status ReadSizes(const JsonObject& json, const SizeKeys& keys, ModelConfig* config);

// By the reference library's names; absent: `fallback`. UNIMPLEMENTED naming the value.
Result<kernels::Epilogue> ReadActivation(const JsonObject& json, std::string_view key,
                                         std::string_view fallback);

// Rotary positions: `rope_theta` with `rope_scaling`, or transformers 5's `rope_parameters`.
// UNIMPLEMENTED naming a kind of scaling that is not supported.
Result<RopeParameters> ReadRope(const JsonObject& json, double default_base);

// The same where `rope_parameters` nests one object per layer type. `default_base` where the file
// says nothing.
Result<RopeParameters> ReadLayerTypeRope(const JsonObject& json, std::string_view layer_type,
                                         double default_base);

// INVALID_ARGUMENT when heads are of odd width: they cannot be rotated. Caps max_positions at
// kMaxRotaryPositions: the tables are made for all of them at load.
Status PrepareRotary(const std::string& name, ModelConfig* config);

// layer_is_full from `layer_types`; absent: every `pattern`-th layer is full.
Status ReadLayerTypes(const JsonObject& json, int64_t pattern, ModelConfig* config);

// UNIMPLEMENTED when one of `keys` is set to a number, an object or true: settings that would
// change results.
Status RefuseSettings(const JsonObject& json, std::initializer_list<std::string_view> keys);

// Reads `<architecture>.<key>` of GGUF metadata. `source` must outlive it.
class GgufKeys {
 public:
  GgufKeys(const formats::TensorSource& source, std::string_view architecture)
      : source_(source), prefix_(std::string(architecture) + ".") {}

  const formats::TensorSource& source() const { return source_; }
  // INVALID_ARGUMENT naming the key when absent or outside [min, max].
  Result<int64_t> Int(std::string_view key, int64_t min, int64_t max) const;
  int64_t IntOr(std::string_view key, int64_t fallback) const;
  double FloatOr(std::string_view key, double fallback) const;
  bool BoolOr(std::string_view key, bool fallback) const;
  std::string StringOr(std::string_view key, std::string_view fallback) const;

 private:
  const formats::TensorSource& source_;
  std::string prefix_;
};

// As ReadSizes; vocabulary from the shape of the token embedding. Sets the naming.
Status ReadGgufSizes(const GgufKeys& keys, ModelConfig* config);

// `rope.freq_base` and `rope.scaling.*`.
Result<RopeParameters> ReadGgufRope(const GgufKeys& keys, double default_base);
// `rope.freq_base_swa`, of sliding layers.
Result<RopeParameters> ReadGgufSlidingRope(const GgufKeys& keys, double default_base);

}  // namespace pergola::models
