// What the tensors of decoder-style models are called, and reading those that more than one reader
// wants: the forward pass (decoder.h), its feed-forward layers alone (ffn_stack.h), the projection
// to the vocabulary (vocabulary_head.h), and slices.
#pragma once

#include <string>
#include <string_view>

#include "models/blocks/local_ffn.h"
#include "models/blocks/self_attention.h"
#include "models/config.h"
#include "models/weight_reader.h"

namespace pergola::models {

struct DecoderNames {
  std::string_view word, final_norm, output, layer;
  std::string_view input_norm;
  AttentionNames attention;
  // Of the norm before the FFN in plain blocks, and of three norms in sandwich blocks.
  std::string_view plain_ffn_norm;
  std::string_view attention_out_norm, ffn_norm, ffn_out_norm;
  FfnNames ffn;
};

const DecoderNames& DecoderNamesOf(const ModelConfig& config);

// "" or "model.": causal language models keep the encoder's tensors under it.
std::string FindDecoderPrefix(const WeightReader& reader, const ModelConfig& config);

// The block of the layer whose tensors begin with `prefix`. Errors name the tensor.
Result<FfnWeights> ReadDecoderFfn(WeightReader& reader, const ModelConfig& config,
                                  const std::string& prefix);

// What rows of the embedding table are multiplied with.
float EmbedScale(const ModelConfig& config);

}  // namespace pergola::models
