// Where the time of a continuation went: `predict --profile`.
//
//   const PredictProfile profile = ProfileOf(generation, prompt_ids.size(), remote.TakeFfnTimes());
//   std::fputs(ProfileText(profile).c_str(), stderr);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/generator.h"
#include "grid/remote_part.h"

namespace pergola::cli {

// Of the feed-forward blocks that lie elsewhere, and what is left here.
struct RemoteLayers {
  double attention_ms = 0;  // attention and norms, here
  double ffn_ms = 0;        // computing, as the servers say
  double transport_ms = 0;  // the rest of waiting for them: frames, network, their queues
  int64_t calls = 0;
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
};

struct PredictProfile {
  size_t prompt_tokens = 0;
  int64_t decoded_tokens = 0;  // after the first, which comes with the prompt
  int64_t passes = 1;          // through the layers: the prompt's and one per decoded token
  double prefill_ms = 0;
  double decode_ms = 0;
  // Sums over all passes. Of what lies elsewhere: with the way there and back.
  double embed_ms = 0;
  double layers_ms = 0;
  double logits_ms = 0;
  std::optional<RemoteLayers> remote;  // none: the feed-forward blocks are here
};

// `ffn`: what the servers of feed-forward layers took for this generation; none if there are none.
PredictProfile ProfileOf(const engine::Generation& generation, size_t prompt_tokens,
                         const std::optional<grid::RemoteTimes>& ffn);

// Lines: the whole, and the mean per pass.
std::string ProfileText(const PredictProfile& profile);

// An object: prompt_tokens, decoded_tokens, prefill_ms, decode_ms, tokens_per_second, per_token
// {embed_ms, layers_ms, logits_ms} and, where blocks lie elsewhere, in it {attention_ms, ffn_ms,
// transport_ms} and beside it {calls, sent_bytes, received_bytes}.
std::string ProfileJson(const PredictProfile& profile);

}  // namespace pergola::cli
