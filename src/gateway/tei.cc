// Text Embeddings Inference: /embed (and POST /), /embed_all, /embed_sparse, /similarity. Bare
// arrays in and out. (/rerank and /predict: tei_classify.cc.)
#include "gateway/dialect.h"
#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

AnswerParts RenderTeiEmbed(std::shared_ptr<const EmbedAnswer> answer) {
  const auto row = [answer](int64_t index, std::string* out) {
    answer->AppendRow(static_cast<size_t>(index), answer->call.formats[0], out);
  };
  return ListParts("[", static_cast<int64_t>(answer->embeddings.size()), row, "]");
}

// One part per token: an answer of gigabytes is never held.
AnswerParts RenderTeiEmbedAll(std::shared_ptr<const EmbedAnswer> answer) {
  return [answer, input = size_t{0}, row = int32_t{0}](std::string* out) mutable {
    const auto [begin, end] = answer->token_rows(input);
    if (row == 0) out->append(input == 0 ? "[[" : ",[");
    if (row > 0) out->push_back(',');
    if (begin + row < end) answer->AppendTokenRow(input, begin + row, out);
    if (begin + ++row < end) return true;
    out->push_back(']');
    row = 0;
    if (++input < answer->outputs.size()) return true;
    out->push_back(']');
    return false;
  };
}

AnswerParts RenderTeiSparse(std::shared_ptr<const EmbedAnswer> answer) {
  const auto vector = [answer](int64_t index, std::string* out) {
    out->push_back('[');
    for (const text::SparseWeight& weight : answer->Sparse(static_cast<size_t>(index))) {
      out->append(out->back() == '[' ? "{\"index\":" : ",{\"index\":");
      AppendJsonInteger(weight.id, out);
      out->append(",\"value\":");
      AppendJsonFloat(weight.weight, out);
      out->push_back('}');
    }
    out->push_back(']');
  };
  return ListParts("[", static_cast<int64_t>(answer->outputs.size()), vector, "]");
}

AnswerParts RenderTeiSimilarity(std::shared_ptr<const EmbedAnswer> answer) {
  const auto score = [answer](int64_t index, std::string* out) {
    AppendJsonFloat(static_cast<float>(answer->Score(static_cast<size_t>(index))), out);
  };
  return ListParts("[", static_cast<int64_t>(answer->call.pairs.size()), score, "]");
}

void ReadCommon(Fields& fields, EmbedCall* call) {
  call->truncate = fields.Bool("truncate").value_or(true);
  ReadDirection(fields, call);
  call->prompt_name = fields.String("prompt_name");
  call->prompt = fields.String("prompt");
}

void Begin(RenderEmbed render, EmbedCall* call) {
  call->envelope = Envelope::kTei;
  call->input_field = "inputs";
  call->render = render;
}

}  // namespace

MaybeFailure ParseTeiEmbed(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  Begin(RenderTeiEmbed, call);
  Fields fields(body, {"inputs", "truncate", "truncation_direction", "normalize", "prompt_name",
                       "prompt", "dimensions", "average_long"});
  if (fields.failure()) return fields.failure();
  ReadCommon(fields, call);
  call->average_long = fields.Bool("average_long");
  call->normalise = fields.Bool("normalize").value_or(true);
  call->dimensions = fields.Integer("dimensions");
  if (fields.failure()) return fields.failure();
  return ReadInputs(fields.Get("inputs"), "inputs", InputForms::kTextsOrIds, limits, &call->inputs);
}

MaybeFailure ParseTeiEmbedAll(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  Begin(RenderTeiEmbedAll, call);
  call->ask = Ask::kTokenVectors;
  Fields fields(body, {"inputs", "truncate", "truncation_direction", "prompt_name", "prompt"});
  if (fields.failure()) return fields.failure();
  ReadCommon(fields, call);
  if (fields.failure()) return fields.failure();
  return ReadInputs(fields.Get("inputs"), "inputs", InputForms::kTextsOrIds, limits, &call->inputs);
}

MaybeFailure ParseTeiSparse(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  Begin(RenderTeiSparse, call);
  call->ask = Ask::kSparse;
  Fields fields(body, {"inputs", "truncate", "truncation_direction", "prompt_name", "prompt"});
  if (fields.failure()) return fields.failure();
  ReadCommon(fields, call);
  if (fields.failure()) return fields.failure();
  return ReadInputs(fields.Get("inputs"), "inputs", InputForms::kTextsOrIds, limits, &call->inputs);
}

MaybeFailure ParseTeiSimilarity(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  Begin(RenderTeiSimilarity, call);
  Fields fields(body, {"inputs", "parameters"});
  if (fields.failure()) return fields.failure();
  call->ask = Ask::kSimilarity;
  call->truncate = true;
  if (const std::optional<JsonValue> parameters = fields.Get("parameters")) {
    Fields inner(*parameters, {"truncate", "truncation_direction", "prompt_name", "prompt"},
                 "parameters.");
    if (!inner.failure()) ReadCommon(inner, call);
    if (inner.failure()) return inner.failure();
  }
  const std::optional<JsonValue> inputs = fields.Get("inputs");
  if (!inputs) return Failure::Invalid("inputs", "inputs is missing");
  Fields inner(*inputs, {"source_sentence", "sentences"}, "inputs.");
  const std::optional<std::string> source =
      inner.failure() ? std::nullopt : inner.String("source_sentence");
  if (!source) inner.Fail("source_sentence", "inputs.source_sentence is missing");
  if (inner.failure()) return inner.failure();
  call->inputs.texts.push_back(*source);
  if (MaybeFailure failure =
          ReadTexts(inner.Get("sentences"), "inputs.sentences", limits, &call->inputs.texts)) {
    return failure;
  }
  PairFirstWithOthers(call);
  return std::nullopt;
}

}  // namespace pergola::gateway
