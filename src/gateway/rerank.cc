// Reranking for Cohere (v1, v2), Jina and Voyage: /v2/rerank and /v1/rerank.
#include "gateway/dialect.h"
#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

// {"index":i,"relevance_score":s} and the document as `document` writes it, or nothing.
using AppendDocument = void (*)(std::string_view text, std::string* out);

void AppendAsObject(std::string_view text, std::string* out) {
  out->append(",\"document\":{\"text\":");
  AppendJsonString(text, out);
  out->push_back('}');
}

void AppendAsText(std::string_view text, std::string* out) {
  out->append(",\"document\":");
  AppendJsonString(text, out);
}

AnswerParts RenderResults(std::shared_ptr<const EmbedAnswer> answer, std::string head,
                          AppendDocument append_document, std::string tail) {
  auto ranking = std::make_shared<const std::vector<ScoredPair>>(answer->Ranking());
  const auto count = static_cast<int64_t>(ranking->size());
  const auto result = [answer, ranking, append_document](int64_t place, std::string* out) {
    const ScoredPair& pair = (*ranking)[static_cast<size_t>(place)];
    out->append("{\"index\":");
    AppendJsonInteger(static_cast<int64_t>(pair.index), out);
    out->append(",\"relevance_score\":");
    AppendJsonFloat(static_cast<float>(pair.score), out);
    if (answer->call.return_documents) {
      append_document(answer->call.inputs.texts[answer->call.pairs[pair.index].second], out);
    }
    out->push_back('}');
  };
  return ListParts(std::move(head), count, result, std::move(tail));
}

std::string Meta(std::string_view api_version) {
  return "\"meta\":{\"api_version\":{\"version\":\"" + std::string(api_version) +
         "\"},\"billed_units\":{\"search_units\":1}}}";
}

std::string Usage(const EmbedAnswer& answer) {
  std::string usage = "\"usage\":{\"prompt_tokens\":";
  AppendJsonInteger(answer.tokens, &usage);
  usage.append(",\"total_tokens\":");
  AppendJsonInteger(answer.tokens, &usage);
  usage.push_back('}');
  return usage;
}

std::string Named(std::string_view name, std::string_view value) {
  std::string out = "\"" + std::string(name) + "\":";
  AppendJsonString(value, &out);
  return out;
}

AnswerParts RenderCohereV2Rerank(std::shared_ptr<const EmbedAnswer> answer) {
  return RenderResults(answer, "{" + Named("id", answer->id) + ",\"results\":[", AppendAsObject,
                       "]," + Meta("2"));
}

// Cohere v1 and Jina: what either of them reads.
AnswerParts RenderV1Rerank(std::shared_ptr<const EmbedAnswer> answer) {
  return RenderResults(
      answer,
      "{" + Named("id", answer->id) + "," + Named("model", answer->model) + ",\"results\":[",
      AppendAsObject, "]," + Usage(*answer) + "," + Meta("1"));
}

AnswerParts RenderVoyageRerank(std::shared_ptr<const EmbedAnswer> answer) {
  return RenderResults(answer, "{\"object\":\"list\",\"data\":[", AppendAsText,
                       "]," + Named("model", answer->model) + "," + Usage(*answer) + "}");
}

// A document is a string or, for Cohere v1 and Jina, {"text": "..."}.
MaybeFailure ReadDocuments(const std::optional<JsonValue>& documents, const ParseLimits& limits,
                           std::vector<std::string>* texts) {
  bool objects = false;
  if (documents && documents->is(JsonKind::kArray)) {
    documents->EachItem([&](size_t, JsonValue item) {
      objects = item.is(JsonKind::kObject);
      return false;
    });
  }
  if (!objects) return ReadTexts(documents, "documents", limits, texts);
  if (documents->size() > static_cast<size_t>(limits.max_batch_inputs)) {
    return Failure::Invalid("documents", "documents has " + std::to_string(documents->size()) +
                                             " entries, the limit is " +
                                             std::to_string(limits.max_batch_inputs));
  }
  MaybeFailure failure;
  documents->EachItem([&](size_t index, JsonValue item) {
    const std::string place = "documents[" + std::to_string(index) + "]";
    Fields fields(item, {"text"}, place + ".");
    const std::optional<std::string> text = fields.failure() ? std::nullopt : fields.String("text");
    failure = fields.failure();
    if (!failure && !text) failure = Failure::Invalid("documents", place + ".text is missing");
    if (!failure) texts->push_back(*text);
    return !failure;
  });
  return failure;
}

// Query and documents, and the count under `top_name`.
MaybeFailure ReadRanking(Fields& fields, std::string_view top_name, const ParseLimits& limits,
                         EmbedCall* call) {
  call->ask = Ask::kRanking;
  call->input_field = "documents";
  call->model = fields.String("model").value_or("");
  call->top_n = fields.Integer(top_name);
  if (call->top_n && *call->top_n < 1) {
    fields.Fail(top_name, std::string(top_name) + " is " + std::to_string(*call->top_n) +
                              ", it must be at least 1");
  }
  call->return_documents = fields.Bool("return_documents").value_or(false);
  const std::optional<std::string> query = fields.String("query");
  if (!query) fields.Fail("query", "query is missing");
  if (fields.failure()) return fields.failure();
  call->inputs.texts.push_back(*query);
  if (auto failure = ReadDocuments(fields.Get("documents"), limits, &call->inputs.texts)) {
    return failure;
  }
  PairFirstWithOthers(call);
  return std::nullopt;
}

void ReadMaxTokensPerDocument(Fields& fields, EmbedCall* call) {
  constexpr std::string_view kName = "max_tokens_per_doc";
  call->max_second_tokens = fields.Integer(kName);
  if (call->max_second_tokens && *call->max_second_tokens < 1) {
    fields.Fail(kName, "max_tokens_per_doc is " + std::to_string(*call->max_second_tokens) +
                           ", it must be at least 1");
  }
}

}  // namespace

MaybeFailure ParseCohereV2Rerank(const JsonValue& body, const ParseLimits& limits,
                                 EmbedCall* call) {
  call->envelope = Envelope::kCohere2;
  call->render = RenderCohereV2Rerank;
  call->truncate = true;
  Fields fields(body,
                {"model", "query", "documents", "top_n", "max_tokens_per_doc", "return_documents"});
  if (fields.failure()) return fields.failure();
  ReadMaxTokensPerDocument(fields, call);
  return ReadRanking(fields, "top_n", limits, call);
}

MaybeFailure ParseRerank(const JsonValue& body, const ParseLimits& limits, EmbedCall* call) {
  call->envelope = Envelope::kOpenAi;
  call->render = RenderV1Rerank;
  Fields fields(body, {"model", "query", "documents", "top_n", "top_k", "truncation", "truncate",
                       "max_tokens_per_doc", "return_documents"});
  if (fields.failure()) return fields.failure();
  const bool is_voyage = fields.Has("top_k") || fields.Has("truncation");
  if (is_voyage) {
    call->envelope = Envelope::kVoyage;
    call->render = RenderVoyageRerank;
  }
  call->truncate = fields.Bool(is_voyage ? "truncation" : "truncate").value_or(true);
  ReadMaxTokensPerDocument(fields, call);
  return ReadRanking(fields, is_voyage ? "top_k" : "top_n", limits, call);
}

}  // namespace pergola::gateway
