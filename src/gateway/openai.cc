// OpenAI's /v1/embeddings with the fields of its relatives: Jina, Voyage and Perplexity add to the
// same body, and are recognised by their fields.
#include "gateway/dialect.h"
#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

AnswerParts RenderOpenAiEmbed(std::shared_ptr<const EmbedAnswer> answer) {
  std::string tail = "],\"model\":";
  AppendJsonString(answer->model, &tail);
  tail.append(",\"usage\":{\"prompt_tokens\":");
  AppendJsonInteger(answer->tokens, &tail);
  tail.append(",\"total_tokens\":");
  AppendJsonInteger(answer->tokens, &tail);
  tail.append("}}");
  const auto row = [answer](int64_t index, std::string* out) {
    out->append("{\"object\":\"embedding\",\"index\":");
    AppendJsonInteger(index, out);
    out->append(",\"embedding\":");
    answer->AppendRow(static_cast<size_t>(index), answer->call.formats[0], out);
    out->push_back('}');
  };
  return ListParts("{\"object\":\"list\",\"data\":[",
                   static_cast<int64_t>(answer->embeddings.size()), row, std::move(tail));
}

}  // namespace

MaybeFailure ParseOpenAiEmbed(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  call->envelope = Envelope::kOpenAi;
  call->render = RenderOpenAiEmbed;
  Fields fields(body, {"model", "input", "dimensions", "encoding_format", "truncate", "normalize",
                       "prompt_name", "prompt", "task", "normalized", "embedding_type",
                       "late_chunking", "input_type", "truncation", "output_dimension",
                       "output_dtype", "truncation_direction", "average_long"});
  if (fields.failure()) return fields.failure();
  ReadEncodingFormat(fields, call);
  ReadVoyageFields(fields, call);  // first: it decides the envelope and the default of truncate
  ReadJinaFields(fields, call);
  call->model = fields.String("model").value_or("");
  if (call->model.empty()) fields.Fail("model", "model is missing; it must be a non-empty string");
  call->dimensions = fields.Has("dimensions") ? fields.Integer("dimensions") : call->dimensions;
  call->truncate = fields.Bool("truncate").value_or(call->truncate);
  ReadDirection(fields, call);
  call->average_long = fields.Bool("average_long");
  call->prompt_name = fields.String("prompt_name");
  call->prompt = fields.String("prompt");
  call->normalise = fields.Has("normalize") ? fields.Bool("normalize") : call->normalise;
  if (fields.failure()) return fields.failure();
  if (!call->late_chunking) {
    return ReadInputs(fields.Get("input"), "input", InputForms::kTextsOrIds, limits, &call->inputs);
  }
  // Jina: the inputs are the chunks of one document.
  const std::optional<JsonValue> input = fields.Get("input");
  const InputForms forms =
      input && input->is(JsonKind::kString) ? InputForms::kTextOnly : InputForms::kTextListOnly;
  if (MaybeFailure failure = ReadInputs(input, "input", forms, limits, &call->inputs)) {
    return failure;
  }
  call->document_sizes = {call->inputs.size()};
  return std::nullopt;
}

}  // namespace pergola::gateway
