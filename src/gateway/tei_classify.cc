// Text Embeddings Inference: /rerank and /predict.
#include "gateway/dialect.h"
#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

AnswerParts RenderTeiRerank(std::shared_ptr<const EmbedAnswer> answer) {
  auto ranking = std::make_shared<const std::vector<ScoredPair>>(answer->Ranking());
  const auto count = static_cast<int64_t>(ranking->size());
  const auto result = [answer, ranking](int64_t place, std::string* out) {
    const ScoredPair& pair = (*ranking)[static_cast<size_t>(place)];
    out->append("{\"index\":");
    AppendJsonInteger(static_cast<int64_t>(pair.index), out);
    if (answer->call.return_documents) {
      out->append(",\"text\":");
      AppendJsonString(answer->call.inputs.texts[answer->call.pairs[pair.index].second], out);
    }
    out->append(",\"score\":");
    AppendJsonFloat(static_cast<float>(pair.score), out);
    out->push_back('}');
  };
  return ListParts("[", count, result, "]");
}

void AppendLabels(const EmbedAnswer& answer, int64_t index, std::string* out) {
  out->push_back('[');
  for (const ScoredLabel& label : answer.Labels(static_cast<size_t>(index))) {
    out->append(out->back() == '[' ? "{\"score\":" : ",{\"score\":");
    AppendJsonFloat(static_cast<float>(label.score), out);
    out->append(",\"label\":");
    AppendJsonString(label.label, out);
    out->push_back('}');
  }
  out->push_back(']');
}

AnswerParts RenderTeiPredictOne(std::shared_ptr<const EmbedAnswer> answer) {
  const auto labels = [answer](int64_t index, std::string* out) {
    AppendLabels(*answer, index, out);
  };
  return ListParts("", 1, labels, "");
}

AnswerParts RenderTeiPredictMany(std::shared_ptr<const EmbedAnswer> answer) {
  const auto labels = [answer](int64_t index, std::string* out) {
    AppendLabels(*answer, index, out);
  };
  return ListParts("[", static_cast<int64_t>(answer->call.pairs.size()), labels, "]");
}

// A list of one text or of a pair.
MaybeFailure ReadOneOrPair(const JsonValue& list, const std::string& place,
                           const ParseLimits& limits, EmbedCall* call) {
  std::vector<std::string>& texts = call->inputs.texts;
  const size_t begin = texts.size();
  if (MaybeFailure failure = ReadTexts(list, place, limits, &texts)) return failure;
  const size_t count = texts.size() - begin;
  if (count > 2) {
    return Failure::Invalid("inputs", place + " has " + std::to_string(count) +
                                          " texts, it must have one or, for a pair, two; a batch "
                                          "is a list of such lists");
  }
  call->pairs.push_back({begin, count == 2 ? begin + 1 : InputPair::kNone});
  return std::nullopt;
}

// A text, a pair, or a batch of lists of either.
MaybeFailure ReadPredictInputs(const std::optional<JsonValue>& inputs, const ParseLimits& limits,
                               EmbedCall* call) {
  if (inputs && inputs->is(JsonKind::kString)) {
    call->inputs.texts.emplace_back(inputs->string());
    call->pairs.push_back({0, InputPair::kNone});
    return std::nullopt;
  }
  bool batch = false;
  if (inputs && inputs->is(JsonKind::kArray)) {
    inputs->EachItem([&](size_t, JsonValue item) {
      batch = item.is(JsonKind::kArray);
      return false;
    });
  }
  if (!batch) {
    if (!inputs || !inputs->is(JsonKind::kArray)) {
      return Failure::Invalid("inputs",
                              inputs ? "inputs must be a string or a list" : "inputs is missing");
    }
    return ReadOneOrPair(*inputs, "inputs", limits, call);
  }
  call->render = RenderTeiPredictMany;
  if (inputs->size() > static_cast<size_t>(limits.max_batch_inputs)) {
    return Failure::Invalid("inputs", "inputs has " + std::to_string(inputs->size()) +
                                          " entries, the limit is " +
                                          std::to_string(limits.max_batch_inputs));
  }
  MaybeFailure failure;
  inputs->EachItem([&](size_t index, JsonValue item) {
    failure = ReadOneOrPair(item, "inputs[" + std::to_string(index) + "]", limits, call);
    return !failure;
  });
  return failure;
}

}  // namespace

MaybeFailure ParseTeiRerank(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  call->envelope = Envelope::kTei;
  call->render = RenderTeiRerank;
  call->ask = Ask::kRanking;
  call->input_field = "texts";
  Fields fields(
      body, {"query", "texts", "raw_scores", "return_text", "truncate", "truncation_direction"});
  if (fields.failure()) return fields.failure();
  call->truncate = fields.Bool("truncate").value_or(true);
  ReadDirection(fields, call);
  call->raw_scores = fields.Bool("raw_scores").value_or(false);
  call->return_documents = fields.Bool("return_text").value_or(false);
  const std::optional<std::string> query = fields.String("query");
  if (!query) fields.Fail("query", "query is missing");
  if (fields.failure()) return fields.failure();
  call->inputs.texts.push_back(*query);
  if (MaybeFailure failure = ReadTexts(fields.Get("texts"), "texts", limits, &call->inputs.texts)) {
    return failure;
  }
  PairFirstWithOthers(call);
  return std::nullopt;
}

MaybeFailure ParseTeiPredict(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  call->envelope = Envelope::kTei;
  call->render = RenderTeiPredictOne;
  call->ask = Ask::kLabels;
  call->input_field = "inputs";
  Fields fields(body, {"inputs", "raw_scores", "truncate", "truncation_direction"});
  if (fields.failure()) return fields.failure();
  call->truncate = fields.Bool("truncate").value_or(true);
  ReadDirection(fields, call);
  call->raw_scores = fields.Bool("raw_scores").value_or(false);
  if (fields.failure()) return fields.failure();
  return ReadPredictInputs(fields.Get("inputs"), limits, call);
}

}  // namespace pergola::gateway
