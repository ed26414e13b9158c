// Perplexity's and Voyage's contextual embeddings: documents, each a list of chunks that are
// embedded in the light of their neighbours. (Perplexity's packed encodings of /v1/embeddings are
// formats like any other: openai.cc.)
#include "gateway/dialect.h"
#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

// One part per chunk.
AnswerParts RenderContextual(std::shared_ptr<const EmbedAnswer> answer) {
  return [answer, document = size_t{0}, chunk = size_t{0},
          index = size_t{0}](std::string* out) mutable {
    if (index == 0) out->append("{\"object\":\"list\",\"data\":[");
    if (chunk == 0) {
      out->append(document == 0 ? "" : ",").append("{\"object\":\"list\",\"index\":");
      AppendJsonInteger(static_cast<int64_t>(document), out);
      out->append(",\"data\":[");
    }
    out->append(chunk == 0 ? "" : ",").append("{\"object\":\"embedding\",\"index\":");
    AppendJsonInteger(static_cast<int64_t>(chunk), out);
    out->append(",\"embedding\":");
    answer->AppendRow(index++, answer->call.formats[0], out);
    out->push_back('}');
    if (++chunk < answer->call.document_sizes[document]) return true;
    out->append("]}");
    chunk = 0;
    if (++document < answer->call.document_sizes.size()) return true;
    out->append("],\"model\":");
    AppendJsonString(answer->model, out);
    out->append(",\"usage\":{\"prompt_tokens\":");
    AppendJsonInteger(answer->tokens, out);
    out->append(",\"total_tokens\":");
    AppendJsonInteger(answer->tokens, out);
    out->append("}}");
    return false;
  };
}

}  // namespace

MaybeFailure ParseContextual(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  call->envelope = Envelope::kOpenAi;
  call->render = RenderContextual;
  Fields fields(body,
                {"model", "input", "inputs", "late_chunking", "dimensions", "encoding_format",
                 "normalize", "input_type", "truncation", "output_dimension", "output_dtype"});
  if (fields.failure()) return fields.failure();
  ReadEncodingFormat(fields, call);
  ReadVoyageFields(fields, call);
  call->model = fields.String("model").value_or("");
  if (call->model.empty()) fields.Fail("model", "model is missing; it must be a non-empty string");
  call->dimensions = fields.Has("dimensions") ? fields.Integer("dimensions") : call->dimensions;
  call->normalise = fields.Bool("normalize");
  call->late_chunking = fields.Bool("late_chunking").value_or(false);
  if (fields.failure()) return fields.failure();
  const std::string_view field = fields.Has("inputs") ? "inputs" : "input";
  call->input_field = field;
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
    const size_t before = call->inputs.size();
    failure = ReadTexts(chunks, place, limits, &call->inputs.texts);
    call->document_sizes.push_back(call->inputs.size() - before);
    return !failure;
  });
  if (!failure && call->inputs.size() > static_cast<size_t>(limits.max_batch_inputs)) {
    return Failure::Invalid(field,
                            std::string(field) + " has " + std::to_string(call->inputs.size()) +
                                " chunks, the limit is " + std::to_string(limits.max_batch_inputs));
  }
  return failure;
}

}  // namespace pergola::gateway
