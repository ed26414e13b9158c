// `predict --verify`: the same prompts computed in one piece and split, with every payload type,
// and how far apart the two are.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto verifier, SplitVerifier::Open(flags, *client, *whole));
//   PERGOLA_ASSIGN_OR_RETURN(const auto parities, verifier->Compare(prompt_ids, options));
//
// Letters: V vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/remote_parts.h"
#include "engine/generator.h"
#include "tokenizers/tokenizer.h"

namespace pergola::cli {

// One payload type against the run in one piece.
struct PayloadParity {
  std::string payload;       // "f32", "bf16", "i8"
  double bytes_per_row = 0;  // sent to --ffn, without frame headers; 0: the layers are here
  double largest_error = 0;  // of the logits after the prompt, over V
  double rms_error = 0;
  std::vector<int32_t> ids;        // the split continuation
  std::vector<int32_t> whole_ids;  // the one in one piece
  int64_t first_difference = -1;   // index in the continuation; -1: the same tokens

  bool same_tokens() const { return first_difference < 0; }
};

// Thread-confined.
class SplitVerifier {
 public:
  // Connects once per payload type (f32 alone when only the embedding table is remote). `client`
  // and `whole` must outlive it. FAILED_PRECONDITION when the two are of different models.
  static Result<std::unique_ptr<SplitVerifier>> Open(const SplitFlags& flags,
                                                     const engine::LanguageModel& client,
                                                     const engine::LanguageModel& whole);

  // Greedy, whatever `options` says of sampling.
  Result<std::vector<PayloadParity>> Compare(std::span<const int32_t> prompt,
                                             engine::GenerateOptions options);

 private:
  struct Split {
    std::string payload;
    std::unique_ptr<RemoteParts> parts;
  };

  SplitVerifier(const engine::LanguageModel& client, const engine::LanguageModel& whole)
      : client_(client), whole_(whole) {}
  Result<PayloadParity> CompareOne(Split& split, std::span<const int32_t> prompt,
                                   const engine::GenerateOptions& options,
                                   std::span<const float> logits);

  const engine::LanguageModel& client_;
  const engine::LanguageModel& whole_;
  std::vector<Split> splits_;
};

// A line per payload type.
std::string ParityText(std::span<const PayloadParity> parities,
                       const tokenizers::Tokenizer& tokenizer);

// A list of objects: payload, bytes_per_row, largest_error, rms_error, same_tokens,
// first_difference (null: none).
std::string ParityJson(std::span<const PayloadParity> parities);

}  // namespace pergola::cli
