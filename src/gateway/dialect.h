// A dialect: how one family of clients writes a request and reads an answer. Nothing else.
//
// A dialect is a pair of pure functions over EmbedCall and EmbedAnswer:
//
//   MaybeFailure ParseX(const JsonValue& body, const ParseLimits& limits, EmbedCall* call);
//   AnswerParts  RenderX(std::shared_ptr<const EmbedAnswer> answer);
//
// Limits, truncation, prompts, dimensions, packing, models, deadlines: the shared path
// (embed_path.h) does all of it, once, from what the call says. How to add one:
// docs/adding_a_dialect.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/failure.h"
#include "gateway/fields.h"
#include "gateway/json_reader.h"
#include "service/embedding_format.h"
#include "service/inference_service.h"
#include "text/sparse_weights.h"
#include "tokenizers/tokenizer.h"

namespace pergola::gateway {

// Texts, or token ids: exactly one of the two is filled.
struct Inputs {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> ids;
  size_t size() const { return texts.size() + ids.size(); }
};

// How the numbers of a row are written.
struct NumberFormat {
  service::NumberType type = service::NumberType::kFloat;
  bool base64 = false;
  std::string_view name = "float";  // as the dialect calls it
  bool packs_bits() const {
    return type == service::NumberType::kBinary || type == service::NumberType::kUbinary ||
           type == service::NumberType::kBinaryLsb;
  }
};

struct EmbedAnswer;
struct ServedModel;
// An answer, piece by piece, so that a large one never stands in memory whole: appends some bytes
// and returns whether there is more. Called from one thread at a time; keeps alive what it reads.
using AnswerParts = std::function<bool(std::string* out)>;
using RenderEmbed = AnswerParts (*)(std::shared_ptr<const EmbedAnswer> answer);

// What a call asks of the model.
enum class Ask {
  kEmbeddings,    // a row per text, or per chunk of a document
  kTokenVectors,  // a row per token
  kSparse,        // weights of the tokens that occur
  kSimilarity,    // of pairs: cosine of their embeddings
  kScores,        // of pairs: by the best means that the model has
  kRanking,       // of pairs: by a model made for it
  kLabels,        // of texts or pairs: the classes of the model
};

// Two inputs by index; kNone: the first stands alone.
struct InputPair {
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t first = 0;
  size_t second = kNone;
};

// One request for vectors or scores, in no dialect.
struct EmbedCall {
  Envelope envelope = Envelope::kOpenAi;
  RenderEmbed render = nullptr;
  std::string model;  // as sent; empty: not given
  Inputs inputs;
  std::string_view input_field = "input";  // for error messages
  Ask ask = Ask::kEmbeddings;

  bool truncate = false;
  tokenizers::TruncationSide side = tokenizers::TruncationSide::kRight;
  std::optional<int64_t> max_tokens;  // a limit below the model's
  std::string_view max_tokens_field = "";

  std::optional<std::string> prompt_name;
  std::optional<std::string> prompt;
  std::optional<std::string> role;  // input_type, task

  std::optional<int64_t> dimensions;
  std::string_view dimensions_field = "dimensions";
  std::optional<bool> normalise;          // nullopt: as the model does
  std::vector<NumberFormat> formats{{}};  // at least one; several only for Cohere
  std::string_view format_field = "encoding_format";

  // kSimilarity, kScores, kRanking, kLabels: what answer i is about.
  std::vector<InputPair> pairs;
  bool raw_scores = false;  // as the model computes them, not between 0 and 1
  std::optional<int64_t> top_n;
  bool return_documents = false;
  // The second text of a pair is cut to so many tokens before the pair is.
  std::optional<int64_t> max_second_tokens;

  // kEmbeddings: how many texts, one after the other, are chunks of one document; empty: none are.
  std::vector<size_t> document_sizes;
  // A document is embedded whole and its chunks pooled apart, also by a model not trained for it.
  bool late_chunking = false;
  std::optional<bool> average_long;  // nullopt: as the server is told

  // How long the model stays loaded after the call (service/keep_alive.h).
  std::optional<std::chrono::milliseconds> keep_alive;

  bool by_type = false;  // Cohere v1: embeddings in an object by type
};

// How pairs are scored.
enum class Scoring {
  kCosine,      // of embeddings
  kClassifier,  // by a model that reads both texts together
  kMaxSim,      // each token of the first with its nearest of the second
};

struct ScoredPair {
  size_t index = 0;
  double score = 0.0;
};

struct ScoredLabel {
  std::string_view label;  // lives as long as the model
  double score = 0.0;
};

// What came of it. Immutable; rendered on any thread.
struct EmbedAnswer {
  EmbedCall call;
  std::string model;                         // as the client named it, else the served id
  std::string id;                            // unique, for dialects whose answers have one
  OutputKind kind = OutputKind::kEmbedding;  // what `outputs` hold
  Scoring scoring = Scoring::kCosine;
  // Per sequence: full width, not normalised. A sequence is an input, a pair that is read together,
  // or a document.
  std::vector<std::shared_ptr<const service::SequenceOutput>> outputs;
  // kEmbedding: sequence and row of each embedding, in the order of the inputs.
  struct Place {
    size_t sequence = 0;
    int64_t row = 0;
  };
  std::vector<Place> embeddings;
  // Each of them as AppendRow writes it in JSON numbers; null: not written yet. Second owner: a
  // cache.
  std::shared_ptr<const std::vector<std::string>> rendered;
  size_t sequences = 0;  // asked of the service
  // Tokens of the sequences that each input became, where one may become several (average_long);
  // `outputs` has their mean. Empty: a sequence per input.
  std::vector<std::vector<int64_t>> parts;
  // kSparse: the ids of each sequence, whose weights `outputs` hold.
  std::vector<std::vector<int32_t>> ids;
  const ServedModel* served = nullptr;  // outlives the answer
  std::shared_ptr<const void> promise;  // InferenceOutput::promise
  int64_t width = 0;                    // numbers a row is cut to
  bool normalise = false;
  int64_t tokens = 0;     // embedded, special tokens included
  int64_t truncated = 0;  // inputs cut
  std::chrono::nanoseconds total_time{0};
  std::chrono::nanoseconds load_time{0};  // of it: until the model was loaded

  const service::Rows& rows(size_t sequence) const { return (*outputs[sequence])[kind]; }
  // The tokens of a sequence that have a vector; those before `begin` have none.
  TokenSpan token_rows(size_t sequence) const;

  // Embedding `index` (of a text, or of a chunk) in `format`: "[...]" or "\"...\"".
  void AppendRow(size_t index, const NumberFormat& format, std::string* out) const;
  // Vector of a token: as computed, or of unit length where it is meant for late interaction.
  void AppendTokenRow(size_t sequence, int64_t token, std::string* out) const;

  // Of pair `index`: between 0 and 1 by a classifier (unless raw_scores), else a cosine.
  double Score(size_t index) const;
  // Pairs by falling score, ties by index, at most top_n of them.
  std::vector<ScoredPair> Ranking() const;
  // Classes of pair `index` by falling score.
  std::vector<ScoredLabel> Labels(size_t index) const;
  // Weights of a sequence by rising token id.
  std::vector<text::SparseWeight> Sparse(size_t sequence) const;
};

struct ParseLimits {
  int64_t max_batch_inputs = 2048;
};

// ---- what several dialects read and write alike

// Rule 1: a string, strings, ids, or lists of ids; `texts_only` for dialects without ids.
enum class InputForms { kTextsOrIds, kTextListOnly, kTextOnly };
MaybeFailure ReadInputs(const std::optional<JsonValue>& value, std::string_view field,
                        InputForms forms, const ParseLimits& limits, Inputs* inputs);

// A list of strings (at least one); appended to *texts.
MaybeFailure ReadTexts(const std::optional<JsonValue>& value, std::string_view field,
                       const ParseLimits& limits, std::vector<std::string>* texts);

// "left" or "right", also with a capital.
void ReadDirection(Fields& fields, EmbedCall* call);

// Pairs of text 0, the query, with each of the others.
void PairFirstWithOthers(EmbedCall* call);

// encoding_format of OpenAI, Ollama and Perplexity.
void ReadEncodingFormat(Fields& fields, EmbedCall* call);

// The formats by name: "float", "base64", "int8", "uint8", "binary", "ubinary", "base64_int8",
// "base64_binary"; nullopt for another.
std::optional<NumberFormat> NumberFormatByName(std::string_view name);

// head, then row(0) .. row(count - 1) with commas between, then tail.
AnswerParts ListParts(std::string head, int64_t count,
                      std::function<void(int64_t, std::string*)> row, std::string tail);

// ---- the dialects

MaybeFailure ParseOpenAiEmbed(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseOllamaEmbed(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseOllamaLegacy(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseTeiEmbed(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseTeiEmbedAll(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseTeiSimilarity(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseCohereV2Embed(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseCohereV1Embed(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseTeiSparse(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseTeiRerank(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseTeiPredict(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseCohereV2Rerank(const JsonValue&, const ParseLimits&, EmbedCall*);
// Cohere v1, Jina and (told by its fields) Voyage.
MaybeFailure ParseRerank(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseScore(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseContextual(const JsonValue&, const ParseLimits&, EmbedCall*);

// Jina's and Voyage's extra fields of /v1/embeddings; sets the envelope and defaults of Voyage.
void ReadJinaFields(Fields& fields, EmbedCall* call);
void ReadVoyageFields(Fields& fields, EmbedCall* call);

}  // namespace pergola::gateway
