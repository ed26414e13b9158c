// The seam between whoever takes requests and whoever computes them, in process or over gRPC.
//
//   service->Submit(std::move(request), [](Result<service::InferenceOutput> output) { ... });
//
// Requests arrive as token ids: text was tokenised above this line (text/text_model.h). Rows come
// back at full width as the pipeline gives them, before normalisation: dimensions, unit length and
// encodings are derived on reading (service/embedding_format.h), so one cached row serves them all.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/sequence.h"
#include "pergola/status.h"
#include "service/cancel_token.h"
#include "service/embedding_format.h"
#include "service/trace_context.h"

namespace pergola::service {

using Clock = std::chrono::steady_clock;

enum class Priority { kOnline, kBulk };

// What one model can do and its limits; immutable.
struct ModelInfo {
  std::string id;            // as users name it
  std::string architecture;  // "bert", "gemma3_text"
  std::string numeric_class;
  std::array<int64_t, kNumOutputKinds> widths = {};  // columns by OutputKind; 0: does not have it
  int64_t max_tokens = 0;                            // per sequence, special tokens included
  int64_t vocab_size = 0;                            // ids must be below
  bool normalises = false;                           // the pipeline ends with L2
  std::vector<int64_t> matryoshka_widths;            // empty: any
  int64_t parameters = 0;
  int64_t weight_bytes = 0;
  std::string quantisation;  // "F32", "Q4_0": of most weights
  std::string file_sha256;   // hex, or empty when not known
  int64_t modified_unix_seconds = 0;
  Int8Rule int8_rule = Int8Rule::kLargest;  // how embeddings become int8
  // Names of the columns of kLogits. One column scores pairs (a reranker), more are classes.
  std::vector<std::string> labels;
  std::string pooling;             // "mean", "cls", "last": of embeddings
  int64_t multi_vector_begin = 0;  // first token with a kMultiVector row that counts
  // Token between the chunks of a document, for models trained on such documents; -1: no such
  // model.
  int32_t chunk_separator = -1;
  bool multi_label = false;  // classes do not exclude each other: a sigmoid each, not a softmax
  // Hex of everything that decides the bits of a row beside its sequence: who gives the same gives
  // the same bits. Empty: not known.
  std::string rows_identity;

  int64_t width(OutputKind kind) const { return widths[static_cast<size_t>(kind)]; }
  bool has(OutputKind kind) const { return width(kind) > 0; }

  bool operator==(const ModelInfo&) const = default;
};

struct InferenceRequest {
  std::string model;  // ModelInfo::id; empty = the only one
  OutputSet outputs = {OutputKind::kEmbedding};
  // None empty, each at most ModelInfo::max_tokens.
  std::vector<Sequence> sequences;
  Priority priority = Priority::kOnline;
  Clock::time_point deadline = Clock::time_point::max();
  std::shared_ptr<CancelToken> cancel;  // second owner: the connection. May be null.
  // On whose behalf (a number of a key, never the key); empty: nobody in particular.
  std::string tenant;
  // The span that asks; none when not valid.
  TraceContext trace;
  // How long the model's weights stay in memory after this request if nobody else asks
  // (service/keep_alive.h); nullopt: as the server is told.
  std::optional<std::chrono::milliseconds> keep_alive = std::nullopt;
  // Asks whether the model works and is no use of it: it does not keep the weights in memory.
  bool probe = false;
  // Submit may compute on the calling thread before it returns, others' sequences included; `done`
  // must not end the service then. The caller has nothing to do until it is answered.
  bool may_block = false;
};

// `rows` x `width` f32, row-major.
struct Rows {
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<float> values;
  const float* row(int64_t index) const { return values.data() + index * width; }
};

// All that was asked of one sequence; what was not asked has no rows. Immutable, shared likewise.
struct SequenceOutput {
  std::array<Rows, kNumOutputKinds> by_kind;
  const Rows& operator[](OutputKind kind) const { return by_kind[static_cast<size_t>(kind)]; }
  Rows& operator[](OutputKind kind) { return by_kind[static_cast<size_t>(kind)]; }
  size_t values() const {  // of all kinds
    size_t sum = 0;
    for (const Rows& rows : by_kind) sum += rows.values.size();
    return sum;
  }
};

inline constexpr const char* kMixedIdentity = "mixed";

struct InferenceOutput {
  std::vector<std::shared_ptr<const SequenceOutput>> sequences;  // one per sequence
  std::chrono::nanoseconds queue_time{0};                        // longest wait of a sequence
  std::chrono::nanoseconds inference_time{0};  // its share (by tokens) of forward passes
  std::chrono::nanoseconds load_time{0};       // of queue_time: until the weights were in memory
  int64_t cache_hits = 0;                      // sequences answered without computing
  // ModelInfo::rows_identity of whoever computed these rows, which may have changed since it was
  // asked; kMixedIdentity if they were several. Empty: not known.
  std::string rows_identity;
  // What admission counts for these rows. Whoever keeps the rows keeps it as long; may be null.
  std::shared_ptr<const void> promise;
};

// Of what is joined from parts: `joined` has the identity of those so far.
inline void JoinIdentity(const std::string& part, std::string* joined) {
  if (joined->empty() && !part.empty()) {
    *joined = part;
  } else if (part.empty() || *joined != part) {
    *joined = kMixedIdentity;
  }
}

// Whether the weights of a model are in memory.
struct Residence {
  bool loaded = true;
  int64_t bytes = 0;  // what they take; 0: not known
  // When they go if nobody asks for the model any more; max(): they stay.
  Clock::time_point expires = Clock::time_point::max();
};

// Called once, on any thread, possibly before Submit returns; must not block.
using InferenceCallback = std::function<void(Result<InferenceOutput>)>;

// Thread-safe.
class InferenceService {
 public:
  virtual ~InferenceService() = default;

  // Never blocks on computing unless request.may_block. Errors, by callback:
  //   NOT_FOUND           model
  //   INVALID_ARGUMENT    a sequence is empty, too long, holds an id outside the vocabulary or a
  //                       span outside itself; an output that the model does not have
  //   RESOURCE_EXHAUSTED  over the admission limit (tokens queued, or output bytes promised)
  //   DEADLINE_EXCEEDED   the deadline passed before its computation began
  //   CANCELLED           the cancel token was set before its computation began
  //   UNAVAILABLE         shutting down, not reached, or no memory for the model's weights in time:
  //                       nothing was computed that anybody could see
  //   INTERNAL            the engine failed, or a row is not finite: this request alone; the
  //                       model's weights could not be loaded
  virtual void Submit(InferenceRequest request, InferenceCallback done) = 0;

  virtual std::vector<ModelInfo> Models() const = 0;

  // Of the service's model. Never blocks on loading.
  virtual Residence residence() const { return {}; }

  // Somebody was answered without asking here, who else would have with that `keep_alive`: counts
  // as a use of the model.
  virtual void NoteUse(std::optional<std::chrono::milliseconds> /*keep_alive*/) {}
};

}  // namespace pergola::service
