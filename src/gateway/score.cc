// vLLM's /score: one to one, one to many, many to many. A reranker scores by what it was trained
// for, an embedder by cosine.
#include "gateway/dialect.h"
#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

AnswerParts RenderScore(std::shared_ptr<const EmbedAnswer> answer) {
  std::string head = "{\"id\":";
  AppendJsonString("score-" + answer->id, &head);
  head.append(",\"object\":\"list\",\"model\":");
  AppendJsonString(answer->model, &head);
  head.append(",\"data\":[");
  std::string tail = "],\"usage\":{\"prompt_tokens\":";
  AppendJsonInteger(answer->tokens, &tail);
  tail.append(",\"total_tokens\":");
  AppendJsonInteger(answer->tokens, &tail);
  tail.append("}}");
  const auto row = [answer](int64_t index, std::string* out) {
    out->append("{\"index\":");
    AppendJsonInteger(index, out);
    out->append(",\"object\":\"score\",\"score\":");
    AppendJsonFloat(static_cast<float>(answer->Score(static_cast<size_t>(index))), out);
    out->push_back('}');
  };
  return ListParts(std::move(head), static_cast<int64_t>(answer->call.pairs.size()), row,
                   std::move(tail));
}

// A string or a list of strings, under the first or the second of two names.
MaybeFailure ReadSide(Fields& fields, std::string_view name, std::string_view alias,
                      const ParseLimits& limits, std::vector<std::string>* texts) {
  if (fields.Has(name) && fields.Has(alias)) {
    return Failure::Invalid(
        alias, std::string(name) + " and " + std::string(alias) + " exclude each other");
  }
  const std::string_view given = fields.Has(alias) ? alias : name;
  const std::optional<JsonValue> value = fields.Get(given);
  if (value && value->is(JsonKind::kString)) {
    texts->emplace_back(value->string());
    return std::nullopt;
  }
  return ReadTexts(value, given, limits, texts);
}

}  // namespace

MaybeFailure ParseScore(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  call->envelope = Envelope::kOpenAi;
  call->render = RenderScore;
  call->ask = Ask::kScores;
  call->input_field = "text";
  Fields fields(body, {"model", "text_1", "text_2", "queries", "documents", "truncate",
                       "truncation_direction"});
  if (fields.failure()) return fields.failure();
  call->model = fields.String("model").value_or("");
  call->truncate = fields.Bool("truncate").value_or(false);
  ReadDirection(fields, call);
  if (fields.failure()) return fields.failure();
  std::vector<std::string>& texts = call->inputs.texts;
  if (auto failure = ReadSide(fields, "text_1", "queries", limits, &texts)) return failure;
  const size_t first = texts.size();
  if (auto failure = ReadSide(fields, "text_2", "documents", limits, &texts)) return failure;
  const size_t second = texts.size() - first;
  if (first != 1 && first != second) {
    return Failure::Invalid("text_1", "text_1 has " + std::to_string(first) + " texts and text_2 " +
                                          std::to_string(second) +
                                          ": text_1 must have one, or as many as text_2");
  }
  for (size_t i = 0; i < second; ++i) call->pairs.push_back({first == 1 ? 0 : i, first + i});
  return std::nullopt;
}

}  // namespace pergola::gateway
