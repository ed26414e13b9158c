// Pergola as a library: open a model, embed texts, read rows.
//
//   PERGOLA_ASSIGN_OR_RETURN(pergola::Engine engine,
//   pergola::Engine::Open("models/all-MiniLM-L6-v2")); PERGOLA_ASSIGN_OR_RETURN(pergola::Embeddings
//   rows, engine.Embed({"a cat", "a dog"})); float similarity = pergola::Dot(rows[0], rows[1]);
//
// Vectors are bit-equal to those of the command line and of every HTTP route on the same machine.
// Std types only; no exception leaves it. Serving over a network is `pergola serve`, not this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pergola/status.h"

namespace pergola {

struct EngineOptions {
  // Compute threads, the caller's included; 0 = one per usable core.
  int num_threads = 0;
  // Kernel set by name ("avx2", "scalar", ...); empty = PERGOLA_FORCE_ISA, else the best.
  std::string isa;
  // Widen quantised weights and compute in f32: slower, the reference for the quantised kernels.
  bool f32_activations = false;
  // What matrices are computed in, whatever the checkpoint stores: "auto" or "as-is", "f32", "f16",
  // "bf16", "int8", "int4".
  std::string weights = "auto";
  // Rows kept for texts seen before; 0 = none.
  size_t cache_bytes = size_t{64} << 20;
};

struct EmbedOptions {
  // A prompt of the model's own table (Engine::prompts), put before every text; empty = the model's
  // default prompt, if it has one.
  std::string prompt_name;
  // Free text put before every text; wins over prompt_name.
  std::optional<std::string> prompt;
  // Cut texts longer than the model takes (from the right, special tokens kept) instead of
  // refusing.
  bool truncate = false;
  // Instead, embed a text that is too long in parts and take their mean, weighted by tokens
  // (docs/http.md, "Long texts").
  bool average_long = false;
  // Values per row: the first n, normalised again if the row is; 0 = all.
  int64_t dimensions = 0;
  // Unit length; nullopt = as the model says.
  std::optional<bool> normalize;
};

// What else to make of each text, in the same forward pass. A model gives what it was trained for:
// Engine::gives_sparse, gives_multi_vector; BGE-M3 all three.
struct RepresentOptions {
  EmbedOptions embed;
  bool dense = true;
  bool sparse = false;
  bool multi_vector = false;
};

struct TokenWeight {
  int32_t id = 0;
  float weight = 0;
};

// Empty where it was not asked for.
struct Representation {
  std::vector<float> dense;         // as Engine::Embed gives it
  std::vector<TokenWeight> sparse;  // the largest positive weight of each token, by rising id
  // A row of unit length per token, end to end.
  std::vector<float> multi_vector;
};

struct ScoreOptions {
  // Cut pairs and texts that are too long (a pair's longer text first) instead of refusing.
  bool truncate = true;
  // What the model computes (logits, sums) instead of numbers between 0 and 1.
  bool raw = false;
};

struct LabelScore {
  std::string label;
  float score = 0;
};

// Rows in the order of the texts. Movable value; the spans it gives live as long as it does.
class Embeddings {
 public:
  Embeddings(int64_t width, std::vector<float> values, int64_t tokens, int64_t truncated)
      : width_(width), values_(std::move(values)), tokens_(tokens), truncated_(truncated) {}

  size_t size() const { return values_.size() / static_cast<size_t>(width_); }
  int64_t width() const { return width_; }
  std::span<const float> operator[](size_t row) const {
    return {values_.data() + row * static_cast<size_t>(width_), static_cast<size_t>(width_)};
  }
  // All rows end to end, [size(), width()].
  std::span<const float> values() const { return values_; }
  // Tokens of all texts, special tokens included, after truncation.
  int64_t tokens() const { return tokens_; }
  // Texts that were cut.
  int64_t truncated() const { return truncated_; }

 private:
  int64_t width_;
  std::vector<float> values_;
  int64_t tokens_;
  int64_t truncated_;
};

// A loaded model. Thread-safe: concurrent calls share its batches. Movable.
class Engine {
 public:
  // `path`: a directory in Hugging Face or sentence-transformers layout, or a `.gguf` file.
  // NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS or UNIMPLEMENTED, naming file, tensor or key.
  static Result<Engine> Open(const std::string& path, const EngineOptions& options = {});

  // INVALID_ARGUMENT naming the index of a text that is too long (without `truncate`) or not UTF-8,
  // an unknown prompt name, or dimensions outside 1..width().
  Result<Embeddings> Embed(std::span<const std::string> texts,
                           const EmbedOptions& options = {}) const;
  Result<Embeddings> Embed(std::initializer_list<std::string> texts,
                           const EmbedOptions& options = {}) const {
    return Embed(std::span<const std::string>(texts.begin(), texts.size()), options);
  }

  // A document in chunks, each embedded in the light of the others: a row per chunk. By a model
  // trained for it, else late chunking, which needs mean pooling. INVALID_ARGUMENT when the
  // document is too long (it is never cut) or a chunk has no tokens. Prompts are not used.
  Result<Embeddings> EmbedChunks(std::span<const std::string> chunks,
                                 const EmbedOptions& options = {}) const;

  // Several representations of each text, one forward pass each. Errors as Embed; INVALID_ARGUMENT
  // for one that the model does not have.
  Result<std::vector<Representation>> Represent(std::span<const std::string> texts,
                                                const RepresentOptions& options) const;

  // How relevant each document is to the query: by a cross-encoder the sigmoid of its logit, by a
  // late-interaction model MaxSim, by an embedder the cosine. In the order of the documents.
  Result<std::vector<float>> Score(const std::string& query, std::span<const std::string> documents,
                                   const ScoreOptions& options = {}) const;

  // Every class of each text with its score, in the model's order. INVALID_ARGUMENT unless the
  // model classifies.
  Result<std::vector<std::vector<LabelScore>>> Classify(std::span<const std::string> texts,
                                                        const ScoreOptions& options = {}) const;

  int64_t width() const;  // values per full row; 0: the model does not embed
  bool gives_sparse() const;
  bool gives_multi_vector() const;
  // Classes of a classifier; one: it scores pairs. Empty: neither.
  const std::vector<std::string>& labels() const;
  int64_t max_tokens() const;  // per text, special tokens included
  // Name -> text put before the input.
  const std::map<std::string, std::string, std::less<>>& prompts() const;
  // Architecture, weights, kernels: one line for people.
  std::string Describe() const;

  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Sum of products; the cosine when both rows have unit length. Sizes are equal (the caller's
// promise).
float Dot(std::span<const float> a, std::span<const float> b);

}  // namespace pergola
