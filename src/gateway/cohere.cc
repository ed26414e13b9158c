// Cohere's /v2/embed, and /v1/embed when its body has texts.
#include <algorithm>

#include "gateway/dialect.h"
#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

std::string Tail(const EmbedAnswer& answer, std::string_view api_version) {
  std::string tail = ",\"texts\":[";
  for (size_t i = 0; i < answer.call.inputs.texts.size(); ++i) {
    if (i > 0) tail.push_back(',');
    AppendJsonString(answer.call.inputs.texts[i], &tail);
  }
  tail.append("],\"meta\":{\"api_version\":{\"version\":\"").append(api_version);
  tail.append("\"},\"billed_units\":{\"input_tokens\":");
  AppendJsonInteger(answer.tokens, &tail);
  tail.append("}}}");
  return tail;
}

std::string Head(const EmbedAnswer& answer, bool by_type) {
  std::string head = "{\"id\":";
  AppendJsonString(answer.id, &head);
  head.append(by_type ? ",\"response_type\":\"embeddings_by_type\",\"embeddings\":{"
                      : ",\"response_type\":\"embeddings_floats\",\"embeddings\":[");
  return head;
}

// embeddings{type:[row, ...], ...}: one part per row of each type.
AnswerParts RenderByType(std::shared_ptr<const EmbedAnswer> answer, std::string_view api_version) {
  return [answer, api_version, type = size_t{0}, row = size_t{0}](std::string* out) mutable {
    const std::vector<NumberFormat>& formats = answer->call.formats;
    if (row == 0) {
      if (type == 0) out->append(Head(*answer, true));
      if (type > 0) out->push_back(',');
      out->push_back('"');
      out->append(formats[type].name);
      out->append("\":[");
    } else {
      out->push_back(',');
    }
    answer->AppendRow(row, formats[type], out);
    if (++row < answer->embeddings.size()) return true;
    out->push_back(']');
    row = 0;
    if (++type < formats.size()) return true;
    out->push_back('}');
    out->append(Tail(*answer, api_version));
    return false;
  };
}

AnswerParts RenderCohereV2(std::shared_ptr<const EmbedAnswer> answer) {
  return RenderByType(std::move(answer), "2");
}

AnswerParts RenderCohereV1(std::shared_ptr<const EmbedAnswer> answer) {
  if (answer->call.by_type) return RenderByType(std::move(answer), "1");
  const auto row = [answer](int64_t index, std::string* out) {
    answer->AppendRow(static_cast<size_t>(index), answer->call.formats[0], out);
  };
  return ListParts(Head(*answer, false), static_cast<int64_t>(answer->embeddings.size()), row,
                   "]" + Tail(*answer, "1"));
}

void ReadEmbeddingTypes(Fields& fields, EmbedCall* call) {
  const std::optional<JsonValue> types = fields.Get("embedding_types");
  if (!types) return;
  call->by_type = true;
  call->format_field = "embedding_types";
  call->formats.clear();
  if (types->is(JsonKind::kArray)) {
    types->EachItem([&](size_t index, JsonValue item) {
      const std::string place = "embedding_types[" + std::to_string(index) + "]";
      constexpr std::string_view kWanted =
          ", it must be one of 'float' 'int8' 'uint8' 'binary' 'ubinary' 'base64'";
      if (!item.is(JsonKind::kString)) {
        fields.Fail("embedding_types",
                    place + " is " + std::string(JsonKindName(item.kind())) + std::string(kWanted));
        return false;
      }
      const std::optional<NumberFormat> format = NumberFormatByName(item.string());
      if (!format || item.string().starts_with("base64_")) {
        fields.Fail("embedding_types",
                    place + " is '" + Excerpt(item.string(), 60) + "'" + std::string(kWanted));
        return false;
      }
      const bool repeated =
          std::any_of(call->formats.begin(), call->formats.end(),
                      [&](const NumberFormat& known) { return known.name == format->name; });
      if (!repeated) call->formats.push_back(*format);
      return true;
    });
  }
  if (call->formats.empty()) {
    fields.Fail("embedding_types", "embedding_types must be a list of at least one type");
  }
}

void ReadCommon(Fields& fields, EmbedCall* call) {
  call->model = fields.String("model").value_or("");
  call->role = fields.String("input_type");
  call->dimensions = fields.Integer("output_dimension");
  call->dimensions_field = "output_dimension";
  const auto truncate = fields.OneOf("truncate", {"END", "NONE", "START"});
  call->truncate = truncate != std::optional<size_t>(1);
  if (truncate == std::optional<size_t>(2)) call->side = tokenizers::TruncationSide::kLeft;
  ReadEmbeddingTypes(fields, call);
}

// inputs[i] = {"content":[{"type":"text","text":"..."}, ...]}: its texts, joined.
MaybeFailure ReadContent(const JsonValue& item, const std::string& place, std::string* text) {
  const auto wrong = [&] {
    return Failure::Invalid("inputs", place +
                                          " must be {\"content\":[{\"type\":\"text\",\"text\":"
                                          "\"...\"}]}; other content is not supported");
  };
  Fields fields(item, {"content"}, place + ".");
  if (fields.failure()) return fields.failure();
  const std::optional<JsonValue> content = fields.Get("content");
  if (!content || !content->is(JsonKind::kArray) || content->size() == 0) return wrong();
  MaybeFailure failure;
  content->EachItem([&](size_t, JsonValue part) {
    Fields inner(part, {"type", "text"}, place + ".content.");
    const std::optional<std::string> type = inner.failure() ? std::nullopt : inner.String("type");
    const std::optional<std::string> value = inner.failure() ? std::nullopt : inner.String("text");
    failure = inner.failure();
    if (!failure && (type != std::optional<std::string>("text") || !value)) failure = wrong();
    if (failure) return false;
    text->append(*value);
    return true;
  });
  return failure;
}

MaybeFailure ReadContents(const JsonValue& list, const ParseLimits& limits, EmbedCall* call) {
  if (!list.is(JsonKind::kArray)) return Failure::Invalid("inputs", "inputs must be a list");
  if (list.size() == 0) return Failure::Invalid("inputs", "inputs is an empty list");
  if (list.size() > static_cast<size_t>(limits.max_batch_inputs)) {
    return Failure::Invalid("inputs", "inputs has " + std::to_string(list.size()) +
                                          " entries, the limit is " +
                                          std::to_string(limits.max_batch_inputs));
  }
  MaybeFailure failure;
  list.EachItem([&](size_t index, JsonValue item) {
    failure = ReadContent(item, "inputs[" + std::to_string(index) + "]",
                          &call->inputs.texts.emplace_back());
    return !failure;
  });
  return failure;
}

}  // namespace

MaybeFailure ParseCohereV2Embed(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  call->envelope = Envelope::kCohere2;
  call->render = RenderCohereV2;
  call->input_field = "texts";
  Fields fields(body, {"model", "texts", "inputs", "images", "input_type", "embedding_types",
                       "truncate", "output_dimension"});
  if (fields.failure()) return fields.failure();
  ReadCommon(fields, call);
  if (fields.Has("images")) fields.Fail("images", "images are not supported, only texts");
  if (fields.failure()) return fields.failure();
  if (const std::optional<JsonValue> contents = fields.Get("inputs")) {
    if (fields.Has("texts")) {
      return Failure::Invalid("inputs", "texts and inputs exclude each other");
    }
    call->input_field = "inputs";
    return ReadContents(*contents, limits, call);
  }
  return ReadInputs(fields.Get("texts"), "texts", InputForms::kTextListOnly, limits, &call->inputs);
}

MaybeFailure ParseCohereV1Embed(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  call->envelope = Envelope::kOpenAi;
  call->render = RenderCohereV1;
  call->input_field = "texts";
  Fields fields(
      body, {"model", "texts", "input_type", "embedding_types", "truncate", "output_dimension"});
  if (fields.failure()) return fields.failure();
  ReadCommon(fields, call);
  if (fields.failure()) return fields.failure();
  return ReadInputs(fields.Get("texts"), "texts", InputForms::kTextListOnly, limits, &call->inputs);
}

}  // namespace pergola::gateway
