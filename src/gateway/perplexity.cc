// Perplexity's and Voyage's contextual embeddings: documents, each a list of chunks. (Perplexity's
// packed encodings of /v1/embeddings are formats like any other: openai.cc.)
#include "gateway/dialect.h"

namespace pergola::gateway {

MaybeFailure ParseContextual(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  call->envelope = Envelope::kOpenAi;
  // No model of this build embeds chunks in the light of their neighbours: rule 13 answers.
  call->ability = "contextual embedding";
  Fields fields(body, {"model", "input", "inputs", "late_chunking"});
  if (fields.failure()) return fields.failure();
  call->model = fields.String("model").value_or("");
  if (call->model.empty()) fields.Fail("model", "model is missing; it must be a non-empty string");
  if (fields.Bool("late_chunking").value_or(false)) call->ability = "late chunking";
  if (fields.failure()) return fields.failure();
  const std::string_view field = fields.Has("inputs") ? "inputs" : "input";
  const std::optional<JsonValue> documents = fields.Get(field);
  if (!documents || !documents->is(JsonKind::kArray)) {
    return Failure::Invalid(field, std::string(field) + " must be a list of lists of strings");
  }
  if (documents->size() == 0) {
    return Failure::Invalid(field, std::string(field) + " is an empty list");
  }
  MaybeFailure failure;
  documents->EachItem([&](size_t index, JsonValue chunks) {
    const std::string place = std::string(field) + "[" + std::to_string(index) + "]";
    failure = ReadTexts(chunks, place, limits, &call->inputs.texts);
    return !failure;
  });
  return failure;
}

}  // namespace pergola::gateway
