// The embedding table and the vocabulary projection of a language model, as whoever answers HTTP
// sees them: plain types, no engine.
//
// Letters: D model width, V vocabulary.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pergola/status.h"
#include "service/cancel_token.h"

namespace pergola::service {

struct TokenChance {
  int32_t id = 0;
  std::string text;
  double probability = 0;
};

// How long somebody waits for a call.
struct SplitCall {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const CancelToken* cancel = nullptr;  // null: nobody ends it sooner; must outlive the call

  bool cancelled() const { return cancel != nullptr && cancel->cancelled(); }
  bool passed() const { return std::chrono::steady_clock::now() >= deadline; }
  // CANCELLED or DEADLINE_EXCEEDED: nobody waits any more.
  Status Check() const {
    if (cancelled()) return CancelledError("the call was cancelled");
    return passed() ? DeadlineExceededError("the time of the call is over") : OkStatus();
  }
};

// Thread-safe. Calls compute and may wait: not for network threads. One that nobody waits for any
// more is not begun, and given up where it waits for other machines: errors of SplitCall::Check.
class SplitService {
 public:
  virtual ~SplitService() = default;

  virtual int64_t hidden_size() const = 0;                // D
  virtual int64_t vocab_size() const = 0;                 // V
  virtual const std::string& model_identity() const = 0;  // 64 hexadecimal digits
  // A JSON object: what the part is and has done.
  virtual std::string StatsJson() const = 0;

  //   rows  f32 [ids, D]  written: scaled as the model wants them
  // INVALID_ARGUMENT naming an id outside the vocabulary; INTERNAL: a row is not finite.
  virtual Status EmbedRows(const SplitCall& call, std::span<const int32_t> ids,
                           std::span<float> rows) = 0;
  //   residuals  f32 [rows, D]  read: before the final norm
  //   logits     f32 [rows, V]  written
  // INTERNAL: they are not finite.
  virtual Status ComputeLogits(const SplitCall& call, std::span<const float> residuals,
                               std::span<float> logits) = 0;
  // The best `count` tokens of each row, best first; temperature 0: one, with probability 1.
  virtual Result<std::vector<std::vector<TokenChance>>> TopTokens(const SplitCall& call,
                                                                  std::span<const float> residuals,
                                                                  int64_t count,
                                                                  float temperature) = 0;
  virtual Result<std::vector<int32_t>> EncodeText(const SplitCall& call, std::string_view text,
                                                  bool add_special_tokens) = 0;
  virtual Result<std::string> DecodeIds(const SplitCall& call, std::span<const int32_t> ids,
                                        bool skip_special_tokens) = 0;
};

}  // namespace pergola::service
