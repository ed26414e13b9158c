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
// An answer, piece by piece, so that a large one never stands in memory whole: appends some bytes
// and returns whether there is more. Called from one thread at a time; keeps alive what it reads.
using AnswerParts = std::function<bool(std::string* out)>;
using RenderEmbed = AnswerParts (*)(std::shared_ptr<const EmbedAnswer> answer);

// One request for vectors, in no dialect.
struct EmbedCall {
  Envelope envelope = Envelope::kOpenAi;
  RenderEmbed render = nullptr;
  std::string model;  // as sent; empty: not given
  Inputs inputs;
  std::string_view input_field = "input";  // for error messages
  OutputKind output = OutputKind::kEmbedding;

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

  // Something the model must be able to do beyond embedding ("late chunking"), or empty.
  std::string_view ability = "";

  // Scores: answer i compares the rows pairs[i].first and .second.
  std::vector<std::pair<size_t, size_t>> pairs;
  bool by_type = false;  // Cohere v1: embeddings in an object by type
};

// What came of it. Immutable; rendered on any thread.
struct EmbedAnswer {
  EmbedCall call;
  std::string model;  // as the client named it, else the served id
  std::string id;     // unique, for dialects whose answers have one
  // Per input: full width, not normalised.
  std::vector<std::shared_ptr<const service::SequenceOutput>> outputs;
  std::shared_ptr<const void> promise;  // InferenceOutput::promise
  int64_t width = 0;                    // numbers a row is cut to
  bool normalise = false;
  service::Int8Rule int8_rule = service::Int8Rule::kLargest;
  int64_t tokens = 0;     // embedded, special tokens included
  int64_t truncated = 0;  // inputs cut
  std::chrono::nanoseconds total_time{0};

  // What was asked of input `index`.
  const service::Rows& rows(size_t index) const { return (*outputs[index])[call.output]; }
  // Row 0 of input `index` in `format`: "[...]" or "\"...\"".
  void AppendRow(size_t index, const NumberFormat& format, std::string* out) const;
  // Token vectors of input `index`: one row of them, never normalised.
  void AppendTokenRow(size_t index, int64_t token, std::string* out) const;
  // Cosine of the rows of two inputs.
  double Cosine(size_t a, size_t b) const;
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
MaybeFailure ParseScore(const JsonValue&, const ParseLimits&, EmbedCall*);
MaybeFailure ParseContextual(const JsonValue&, const ParseLimits&, EmbedCall*);

// Jina's and Voyage's extra fields of /v1/embeddings; sets the envelope and defaults of Voyage.
void ReadJinaFields(Fields& fields, EmbedCall* call);
void ReadVoyageFields(Fields& fields, EmbedCall* call);

}  // namespace pergola::gateway
