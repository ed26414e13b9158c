// The seam between whoever takes requests and whoever computes them, in process or over gRPC.
//
//   service->Submit(std::move(request), [](Result<service::InferenceOutput> output) { ... });
//
// Requests arrive as token ids: text was tokenised above this line (text/text_model.h). Rows come
// back at full width as the pipeline gives them, before normalisation: dimensions, unit length and
// encodings are derived on reading (service/embedding_format.h), so one cached row serves them all.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola::service {

using Clock = std::chrono::steady_clock;

enum class Task {
  kEmbed,         // one row per sequence: pooled
  kTokenVectors,  // one row per token: final hidden states, not pooled
};

enum class Priority { kOnline, kBulk };

// What one model can do and its limits; immutable.
struct ModelInfo {
  std::string id;            // as users name it
  std::string architecture;  // "bert", "gemma3_text"
  std::string numeric_class;
  int64_t embedding_width = 0;             // E
  int64_t hidden_width = 0;                // width of token vectors, D
  int64_t max_tokens = 0;                  // per sequence, special tokens included
  int64_t vocab_size = 0;                  // ids must be below
  bool normalises = false;                 // the pipeline ends with L2
  std::vector<int64_t> matryoshka_widths;  // empty: any
  int64_t parameters = 0;
  int64_t weight_bytes = 0;
  std::string quantisation;  // "F32", "Q4_0": of most weights
  std::string file_sha256;   // hex, or empty when not known
  int64_t modified_unix_seconds = 0;
};

// Shared by whoever may cancel and the service. Thread-safe.
class CancelToken {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_ = false;
};

struct InferenceRequest {
  std::string model;  // ModelInfo::id; empty = the only one
  Task task = Task::kEmbed;
  // Ids of each sequence, special tokens included, none empty, each at most ModelInfo::max_tokens.
  std::vector<std::vector<int32_t>> sequences;
  Priority priority = Priority::kOnline;
  Clock::time_point deadline = Clock::time_point::max();
  std::shared_ptr<CancelToken> cancel;  // second owner: the connection. May be null.
};

// `rows` x `width` f32, row-major. Immutable; shared between the cache and all who asked.
struct Rows {
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<float> values;
  const float* row(int64_t index) const { return values.data() + index * width; }
};

struct InferenceOutput {
  // One per sequence; kEmbed: 1 row of E, kTokenVectors: a row of D per token.
  std::vector<std::shared_ptr<const Rows>> sequences;
  std::chrono::nanoseconds queue_time{0};      // longest wait of a sequence
  std::chrono::nanoseconds inference_time{0};  // its share (by tokens) of forward passes
  int64_t cache_hits = 0;                      // sequences answered without computing
  // What admission counts for these rows. Whoever keeps the rows keeps it as long; may be null.
  std::shared_ptr<const void> promise;
};

// Called once, on any thread, possibly before Submit returns; must not block.
using InferenceCallback = std::function<void(Result<InferenceOutput>)>;

// Thread-safe.
class InferenceService {
 public:
  virtual ~InferenceService() = default;

  // Never blocks on computing. Errors, by callback:
  //   NOT_FOUND           model
  //   INVALID_ARGUMENT    a sequence is empty, too long or holds an id outside the vocabulary
  //   RESOURCE_EXHAUSTED  over the admission limit (tokens queued, or output bytes promised)
  //   DEADLINE_EXCEEDED   the deadline passed before its computation began
  //   CANCELLED           the cancel token was set before its computation began
  //   UNAVAILABLE         shutting down
  //   INTERNAL            the engine failed, or a row is not finite: this request alone
  virtual void Submit(InferenceRequest request, InferenceCallback done) = 0;

  virtual std::vector<ModelInfo> Models() const = 0;
};

}  // namespace pergola::service
