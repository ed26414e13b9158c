// Ollama's /api/embed, and its legacy /api/embeddings with one prompt and one vector.
#include "gateway/dialect.h"
#include "gateway/json_writer.h"
#include "service/keep_alive.h"

namespace pergola::gateway {
namespace {

AnswerParts RenderOllamaEmbed(std::shared_ptr<const EmbedAnswer> answer) {
  std::string head = "{\"model\":";
  AppendJsonString(answer->model, &head);
  head.append(",\"embeddings\":[");
  std::string tail = "],\"total_duration\":";
  AppendJsonInteger(answer->total_time.count(), &tail);
  tail.append(",\"load_duration\":");
  AppendJsonInteger(answer->load_time.count(), &tail);
  tail.append(",\"prompt_eval_count\":");
  AppendJsonInteger(answer->tokens, &tail);
  tail.push_back('}');
  const auto row = [answer](int64_t index, std::string* out) {
    answer->AppendRow(static_cast<size_t>(index), answer->call.formats[0], out);
  };
  return ListParts(std::move(head), static_cast<int64_t>(answer->embeddings.size()), row,
                   std::move(tail));
}

AnswerParts RenderOllamaLegacy(std::shared_ptr<const EmbedAnswer> answer) {
  const auto row = [answer](int64_t, std::string* out) {
    answer->AppendRow(0, answer->call.formats[0], out);
  };
  return ListParts("{\"embedding\":", 1, row, "}");
}

// A number of seconds, or a text like "5m".
void ReadKeepAlive(Fields& fields, EmbedCall* call) {
  const std::optional<JsonValue> value = fields.Get("keep_alive");
  if (!value) return;
  if (value->is(JsonKind::kInteger)) {
    call->keep_alive = service::KeepAliveOf(static_cast<double>(value->integer()));
  } else if (value->is(JsonKind::kNumber)) {
    call->keep_alive = service::KeepAliveOf(value->number());
  } else if (value->is(JsonKind::kString)) {
    const auto parsed = service::ParseKeepAlive(value->string());
    if (!parsed.ok()) return fields.Fail("keep_alive", "keep_alive " + parsed.status().message());
    call->keep_alive = *parsed;
  } else {
    fields.Fail("keep_alive", "keep_alive is " + std::string(JsonKindName(value->kind())) +
                                  ", it must be seconds or a duration like \"5m\"");
  }
}

void ReadCommon(Fields& fields, EmbedCall* call) {
  call->envelope = Envelope::kPlain;
  call->model = fields.String("model").value_or("");
  call->truncate = fields.Bool("truncate").value_or(true);
  call->dimensions = fields.Integer("dimensions");
  ReadEncodingFormat(fields, call);
  ReadKeepAlive(fields, call);
  const std::optional<JsonValue> options = fields.Get("options");
  if (!options) return;
  Fields inner(*options, {"num_ctx"}, "options.");
  call->max_tokens = inner.Integer("num_ctx");
  call->max_tokens_field = "options.num_ctx";
  if (inner.failure()) fields.Fail(*inner.failure());
}

}  // namespace

MaybeFailure ParseOllamaEmbed(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  Fields fields(body, {"model", "input", "truncate", "dimensions", "encoding_format", "options",
                       "keep_alive"});
  call->envelope = Envelope::kPlain;
  call->render = RenderOllamaEmbed;
  if (fields.failure()) return fields.failure();
  ReadCommon(fields, call);
  if (fields.failure()) return fields.failure();
  return ReadInputs(fields.Get("input"), "input", InputForms::kTextsOrIds, limits, &call->inputs);
}

MaybeFailure ParseOllamaLegacy(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  Fields fields(body, {"model", "prompt", "truncate", "dimensions", "encoding_format", "options",
                       "keep_alive"});
  call->envelope = Envelope::kPlain;
  call->render = RenderOllamaLegacy;
  call->input_field = "prompt";
  if (fields.failure()) return fields.failure();
  ReadCommon(fields, call);
  if (fields.failure()) return fields.failure();
  return ReadInputs(fields.Get("prompt"), "prompt", InputForms::kTextOnly, limits, &call->inputs);
}

}  // namespace pergola::gateway
