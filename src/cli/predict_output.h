// What `pergola predict` prints about one prompt.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/predict_profile.h"
#include "cli/verify_split.h"
#include "engine/generator.h"
#include "tokenizers/tokenizer.h"

namespace pergola::cli {

struct Prediction {
  std::string_view prompt;
  std::span<const int32_t> ids;  // of the prompt
  const engine::Generation* generation = nullptr;
  const PredictProfile* profile = nullptr;       // null: not asked for
  std::span<const PayloadParity> parities = {};  // of --verify
};

// One JSON object and a newline:
//   ids, top [{token_id, token, logit, prob}], generated [ids], text
// and "profile" (predict_profile.h) and "verify" (verify_split.h) where they are asked for.
// `top` is about the token after the prompt; `text` is the continuation decoded.
std::string PredictionJson(const Prediction& prediction, const tokenizers::Tokenizer& tokenizer);

// The prompt with its continuation, then a line per candidate and per payload type. Control
// characters are escaped.
std::string PredictionText(const Prediction& prediction, const tokenizers::Tokenizer& tokenizer);

}  // namespace pergola::cli
