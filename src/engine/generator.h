// Continues one sequence with a causal language model, token by token.
//
//   Generator generator(model, {});
//   PERGOLA_ASSIGN_OR_RETURN(Generation generation, generator.Generate(prompt_ids, {}));
//
// The forward pass is the model's; what it was loaded without (rows of the embedding table, the
// feed-forward layers, the projection to the vocabulary) comes through ports, from wherever. An
// error of a port leaves the sequence as it was before the call, which can be repeated.
//
// Letters: T tokens, D model width, V vocabulary.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "engine/language_model.h"
#include "engine/token_choice.h"
#include "models/ffn_port.h"
#include "models/kv_cache.h"
#include "models/workspace.h"
#include "pergola/status.h"

namespace pergola::engine {

// Rows of an embedding table that lies elsewhere. Thread-confined.
class EmbedPort {
 public:
  virtual ~EmbedPort() = default;
  // rows  f32 [T, D]  written: scaled as the model wants them
  virtual Status Embed(std::span<const int32_t> ids, F32Matrix rows) = 0;
};

// A projection to the vocabulary that lies elsewhere. Thread-confined.
class HeadPort {
 public:
  virtual ~HeadPort() = default;
  // The best `count` tokens.   residual  f32 [1, D]  read; before the final norm
  virtual Result<TopTokens> Top(ConstF32Matrix residual, int64_t count) = 0;
  // logits  f32 [V]  written
  virtual Status Logits(ConstF32Matrix residual, std::span<float> logits) = 0;
};

// Null: the model's own. Must outlive the generator.
struct GeneratorPorts {
  EmbedPort* embed = nullptr;
  models::FfnPort* ffn = nullptr;
  HeadPort* head = nullptr;
};

struct GenerateOptions {
  int64_t max_tokens = 0;   // of the continuation
  int64_t top_k = 5;        // of the prompt's next token, reported; at least 1
  bool stop_at_end = true;  // at a token that ends a text, which is then the last
  SamplingOptions sampling;
};

// Where the time went.
struct GenerationProfile {
  std::chrono::nanoseconds embed{0};
  std::chrono::nanoseconds layers{0};  // all layers, remote feed-forward blocks included
  std::chrono::nanoseconds head{0};
  std::chrono::nanoseconds prefill{0};  // of the whole: until the first logits
  std::chrono::nanoseconds total{0};
};

struct Generation {
  TopTokens next;            // after the prompt
  std::vector<int32_t> ids;  // the continuation
  GenerationProfile profile;
};

// Thread-confined, and one at a time per model.
class Generator {
 public:
  // `model` must outlive it. A port is needed where the model was loaded without the part.
  Generator(const LanguageModel& model, const GeneratorPorts& ports);

  // A new sequence: `prompt`, then the continuation. INVALID_ARGUMENT when the prompt is empty, has
  // an id outside the vocabulary, or leaves too few positions; else what a port says.
  Result<Generation> Generate(std::span<const int32_t> prompt, const GenerateOptions& options);

  // The steps of it. Adds `ids` to the sequence and keeps the last one's residual.
  Status Feed(std::span<const int32_t> ids);
  // Best tokens after what was fed.
  Result<TopTokens> Top(int64_t count);
  // f32 [V], valid until the next call.
  Result<std::span<const float>> Logits();
  // Forgets the sequence from token `length` on; what is fed next follows there.
  void Truncate(int64_t length) { cache_.Truncate(length); }
  int64_t length() const { return cache_.length(); }

  // Scratch memory and cache held, in bytes.
  size_t state_bytes() const { return workspace_.bytes() + cache_.bytes(); }

 private:
  Status Check(std::span<const int32_t> ids, int64_t more) const;
  Result<int32_t> Choose(Sampler& sampler);

  const LanguageModel& model_;
  GeneratorPorts ports_;
  models::Workspace workspace_;
  models::KvCache cache_;
  std::vector<int32_t> positions_;
  std::vector<float> embedded_;
  std::vector<float> residual_;  // [D] of the last token fed
  std::vector<float> logits_;
  GenerationProfile profile_;
};

}  // namespace pergola::engine
