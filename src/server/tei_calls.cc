#include "server/tei_calls.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "service/embedding_format.h"
#include "service/scores.h"
#include "tei/v1/tei.pb.h"
#include "text/sparse_weights.h"

namespace pergola::server {
namespace {

namespace v1 = tei::v1;

using service::Clock;
using service::InferenceOutput;
using text::PrepareOptions;

constexpr int kMaxBatch = 2048;

uint32_t CodePoints(const std::string& text) {
  return static_cast<uint32_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

// What every request with a text says of truncation.
template <typename Request>
Result<PrepareOptions> ReadOptions(const Request& request) {
  PrepareOptions options;
  options.truncate = request.truncate();
  switch (request.truncation_direction()) {
    case v1::TRUNCATION_DIRECTION_RIGHT:
      break;
    case v1::TRUNCATION_DIRECTION_LEFT:
      options.side = tokenizers::TruncationSide::kLeft;
      break;
    default:
      return InvalidArgumentError("unknown truncation_direction " +
                                  std::to_string(request.truncation_direction()));
  }
  return options;
}

template <typename Request>
Result<PrepareOptions> ReadPromptOptions(const Request& request) {
  PERGOLA_ASSIGN_OR_RETURN(PrepareOptions options, ReadOptions(request));
  if (request.has_prompt_name()) options.prompt_name = request.prompt_name();
  return options;
}

Result<int64_t> ReadDimensions(const v1::EmbedRequest& request, const service::ModelInfo& info) {
  const int64_t width = info.width(OutputKind::kEmbedding);
  if (!request.has_dimensions()) return width;
  const int64_t asked = request.dimensions();
  const std::vector<int64_t>& trained = info.matryoshka_widths;
  const bool listed = trained.empty() || asked == width ||
                      std::find(trained.begin(), trained.end(), asked) != trained.end();
  if (asked < 1 || asked > width || !listed) {
    return InvalidArgumentError("dimensions is " + std::to_string(asked) + ", allowed is " +
                                (trained.empty() ? "1 to "
                                                 : "a size that the model was trained "
                                                   "to be cut to, or ") +
                                std::to_string(width));
  }
  return asked;
}

Status Lacks(const service::ModelInfo& info, const std::string& what) {
  return FailedPreconditionError("the model '" + info.id + "' " + what);
}

}  // namespace

// One call on its way.
struct TeiCalls::Work {
  service::InferenceRequest request;
  uint32_t chars = 0;
  uint32_t tokens = 0;
  Clock::time_point began = Clock::now();
  Clock::time_point tokenised;

  void Describe(const InferenceOutput& output, v1::Metadata* metadata) const {
    const auto ns = [](Clock::duration time) { return static_cast<uint64_t>(time.count()); };
    metadata->set_compute_chars(chars);
    metadata->set_compute_tokens(tokens);
    metadata->set_total_time_ns(ns(Clock::now() - began));
    metadata->set_tokenization_time_ns(ns(tokenised - began));
    metadata->set_queue_time_ns(ns(output.queue_time));
    metadata->set_inference_time_ns(ns(output.inference_time));
  }
};

TeiCalls::TeiCalls(const ServedModel& model, std::function<void()> answered)
    : model_(model), answered_(std::move(answered)) {}

Status TeiCalls::Add(const std::string& text, const PrepareOptions& options, Work* work) const {
  if (text.empty()) return InvalidArgumentError("inputs is empty");
  PERGOLA_ASSIGN_OR_RETURN(text::PreparedText prepared, model_.text->Prepare(text, options));
  work->chars += CodePoints(text);
  work->tokens += static_cast<uint32_t>(prepared.sequence.tokens());
  work->request.sequences.push_back(std::move(prepared.sequence));
  return OkStatus();
}

Status TeiCalls::AddPair(const std::string& first, const std::string& second,
                         const PrepareOptions& options, Work* work) const {
  if (first.empty()) return InvalidArgumentError("the first text is empty");
  PERGOLA_ASSIGN_OR_RETURN(text::PreparedText prepared,
                           model_.text->PreparePair(first, second, options));
  work->chars += CodePoints(first) + CodePoints(second);
  work->tokens += static_cast<uint32_t>(prepared.sequence.tokens());
  work->request.sequences.push_back(std::move(prepared.sequence));
  return OkStatus();
}

void TeiCalls::Submit(WorkPtr work, const CallScope& scope, Fill fill, Done done) const {
  work->tokenised = Clock::now();
  service::InferenceRequest request = std::move(work->request);
  request.model = model_.info.id;
  request.deadline = scope.deadline;
  request.cancel = scope.cancel;
  model_.service->Submit(std::move(request),
                         [work = std::move(work), fill = std::move(fill), done = std::move(done),
                          answered = answered_](const Result<InferenceOutput>& output) {
                           if (output.ok()) {
                             if (answered) answered();
                             fill(*work, *output);
                           }
                           done(output.status());
                         });
}

void TeiCalls::Info(v1::InfoResponse* response) const {
  const service::ModelInfo& info = model_.info;
  response->set_version(PERGOLA_VERSION);
  response->set_model_id(info.id);
  if (!info.file_sha256.empty()) response->set_model_sha(info.file_sha256);
  response->set_model_dtype(info.quantisation);
  response->set_model_type(reranks()      ? v1::MODEL_TYPE_RERANKER
                           : classifies() ? v1::MODEL_TYPE_CLASSIFIER
                                          : v1::MODEL_TYPE_EMBEDDING);
  response->set_max_concurrent_requests(512);
  response->set_max_input_length(static_cast<uint32_t>(info.max_tokens));
  response->set_max_batch_tokens(1 << 20);
  response->set_max_client_batch_size(kMaxBatch);
  response->set_tokenization_workers(1);
}

void TeiCalls::Embed(const v1::EmbedRequest& request, const CallScope& scope,
                     v1::EmbedResponse* response, Done done) const {
  if (!embeds()) return done(Lacks(model_.info, "gives no embeddings"));
  const Result<PrepareOptions> options = ReadPromptOptions(request);
  if (!options.ok()) return done(options.status());
  const Result<int64_t> width = ReadDimensions(request, model_.info);
  if (!width.ok()) return done(width.status());
  auto work = std::make_shared<Work>();
  if (Status status = Add(request.inputs(), *options, work.get()); !status.ok()) {
    return done(status);
  }
  const bool normalise = !request.has_normalize() || request.normalize();
  Submit(
      work, scope,
      [width = *width, normalise, response](const Work& finished, const InferenceOutput& output) {
        auto* values = response->mutable_embeddings();
        values->Resize(static_cast<int>(width), 0);
        service::FormatFloats((*output.sequences[0])[OutputKind::kEmbedding].values, normalise,
                              {values->mutable_data(), static_cast<size_t>(width)});
        finished.Describe(output, response->mutable_metadata());
      },
      std::move(done));
}

void TeiCalls::EmbedSparse(const v1::EmbedSparseRequest& request, const CallScope& scope,
                           v1::EmbedSparseResponse* response, Done done) const {
  if (!model_.info.has(OutputKind::kSparse)) {
    return done(Lacks(model_.info, "gives no sparse embeddings"));
  }
  const Result<PrepareOptions> options = ReadPromptOptions(request);
  if (!options.ok()) return done(options.status());
  auto work = std::make_shared<Work>();
  work->request.outputs = {OutputKind::kSparse};
  if (Status status = Add(request.inputs(), *options, work.get()); !status.ok()) {
    return done(status);
  }
  Submit(
      work, scope,
      [text = model_.text, ids = work->request.sequences[0].ids, response](
          const Work& finished, const InferenceOutput& output) {
        const auto& weights = (*output.sequences[0])[OutputKind::kSparse].values;
        for (const text::SparseWeight& weight : text::FoldSparse(ids, weights, text->tokenizer())) {
          v1::SparseValue* value = response->add_sparse_embeddings();
          value->set_index(static_cast<uint32_t>(weight.id));
          value->set_value(weight.weight);
        }
        finished.Describe(output, response->mutable_metadata());
      },
      std::move(done));
}

void TeiCalls::EmbedAll(const v1::EmbedAllRequest& request, const CallScope& scope,
                        v1::EmbedAllResponse* response, Done done) const {
  const service::ModelInfo& info = model_.info;
  const bool multi = info.has(OutputKind::kMultiVector);
  const OutputKind kind = multi ? OutputKind::kMultiVector : OutputKind::kTokenVectors;
  if (!info.has(kind)) return done(Lacks(info, "gives no token vectors"));
  const Result<PrepareOptions> options = ReadPromptOptions(request);
  if (!options.ok()) return done(options.status());
  auto work = std::make_shared<Work>();
  work->request.outputs = {kind};
  if (Status status = Add(request.inputs(), *options, work.get()); !status.ok()) {
    return done(status);
  }
  Submit(
      work, scope,
      [kind, begin = multi ? info.multi_vector_begin : 0, response](const Work& finished,
                                                                    const InferenceOutput& output) {
        const service::Rows& rows = (*output.sequences[0])[kind];
        const auto width = static_cast<size_t>(rows.width);
        for (int64_t row = begin; row < rows.rows; ++row) {
          auto* values = response->add_token_embeddings()->mutable_embeddings();
          values->Resize(static_cast<int>(width), 0);
          // Vectors for late interaction are of unit length.
          service::FormatFloats({rows.row(row), width}, kind == OutputKind::kMultiVector,
                                {values->mutable_data(), width});
        }
        finished.Describe(output, response->mutable_metadata());
      },
      std::move(done));
}

void TeiCalls::FillPredictions(const Work& work, const InferenceOutput& output, bool raw,
                               v1::PredictResponse* response) const {
  const service::ModelInfo& info = model_.info;
  const std::vector<double> scores = service::LabelScores(
      (*output.sequences[0])[OutputKind::kLogits].values, info.multi_label, raw);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  for (const size_t label : order) {
    v1::Prediction* prediction = response->add_predictions();
    prediction->set_score(static_cast<float>(scores[label]));
    if (label < info.labels.size()) prediction->set_label(info.labels[label]);
  }
  work.Describe(output, response->mutable_metadata());
}

void TeiCalls::Predict(const v1::PredictRequest& request, const CallScope& scope,
                       v1::PredictResponse* response, Done done) const {
  if (!classifies()) return done(Lacks(model_.info, "is no classifier"));
  const Result<PrepareOptions> options = ReadOptions(request);
  if (!options.ok()) return done(options.status());
  auto work = std::make_shared<Work>();
  work->request.outputs = {OutputKind::kLogits};
  if (Status status = Add(request.inputs(), *options, work.get()); !status.ok()) {
    return done(status);
  }
  Submit(
      work, scope,
      [this, raw = request.raw_scores(), response](const Work& finished,
                                                   const InferenceOutput& output) {
        FillPredictions(finished, output, raw, response);
      },
      std::move(done));
}

void TeiCalls::PredictPair(const v1::PredictPairRequest& request, const CallScope& scope,
                           v1::PredictResponse* response, Done done) const {
  if (!classifies()) return done(Lacks(model_.info, "is no classifier"));
  if (request.inputs_size() != 2) {
    return done(InvalidArgumentError("inputs has " + std::to_string(request.inputs_size()) +
                                     " texts, a pair has two"));
  }
  const Result<PrepareOptions> options = ReadOptions(request);
  if (!options.ok()) return done(options.status());
  auto work = std::make_shared<Work>();
  work->request.outputs = {OutputKind::kLogits};
  if (Status status = AddPair(request.inputs(0), request.inputs(1), *options, work.get());
      !status.ok()) {
    return done(status);
  }
  Submit(
      work, scope,
      [this, raw = request.raw_scores(), response](const Work& finished,
                                                   const InferenceOutput& output) {
        FillPredictions(finished, output, raw, response);
      },
      std::move(done));
}

void TeiCalls::Rerank(const v1::RerankRequest& request, const CallScope& scope,
                      v1::RerankResponse* response, Done done) const {
  if (!reranks()) return done(Lacks(model_.info, "is no reranker"));
  if (request.texts_size() == 0) return done(InvalidArgumentError("texts is empty"));
  if (request.texts_size() > kMaxBatch) {
    return done(InvalidArgumentError("texts has " + std::to_string(request.texts_size()) +
                                     " entries, the limit is " + std::to_string(kMaxBatch)));
  }
  const Result<PrepareOptions> options = ReadOptions(request);
  if (!options.ok()) return done(options.status());
  auto work = std::make_shared<Work>();
  work->request.outputs = {OutputKind::kLogits};
  for (const std::string& text : request.texts()) {
    if (Status status = AddPair(request.query(), text, *options, work.get()); !status.ok()) {
      return done(status);
    }
  }
  Submit(
      work, scope,
      [&request, response](const Work& finished, const InferenceOutput& output) {
        std::vector<std::pair<double, int>> ranks;
        for (int index = 0; index < request.texts_size(); ++index) {
          const auto& logits =
              (*output.sequences[static_cast<size_t>(index)])[OutputKind::kLogits].values;
          ranks.emplace_back(service::LabelScores(logits, false, request.raw_scores())[0], index);
        }
        std::stable_sort(ranks.begin(), ranks.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        for (const auto& [score, index] : ranks) {
          v1::Rank* rank = response->add_ranks();
          rank->set_index(static_cast<uint32_t>(index));
          rank->set_score(static_cast<float>(score));
          if (request.return_text()) rank->set_text(request.texts(index));
        }
        finished.Describe(output, response->mutable_metadata());
      },
      std::move(done));
}

void TeiCalls::Tokenize(const v1::EncodeRequest& request, const CallScope& /*scope*/,
                        v1::EncodeResponse* response, Done done) const {
  PrepareOptions options;
  if (request.has_prompt_name()) options.prompt_name = request.prompt_name();
  const Result<std::string> prompt = model_.text->ResolvePrompt(options);
  if (!prompt.ok()) return done(prompt.status());
  const std::string text = *prompt + request.inputs();
  constexpr size_t kMaxTokens = 1'000'000;
  tokenizers::EncodeOptions encode;
  encode.with_offsets = true;
  encode.add_special_tokens = request.add_special_tokens();
  encode.max_tokens = kMaxTokens + 1;
  const tokenizers::Tokenizer& tokenizer = model_.text->tokenizer();
  tokenizers::Encoding encoding;
  if (const Status status = tokenizer.Encode(text, encode, &encoding); !status.ok()) {
    return done(status);
  }
  if (encoding.ids.size() > kMaxTokens) {
    return done(InvalidArgumentError("inputs has more than " + std::to_string(kMaxTokens) +
                                     " tokens, the limit of one request"));
  }
  for (size_t index = 0; index < encoding.ids.size(); ++index) {
    v1::SimpleToken* token = response->add_tokens();
    token->set_id(static_cast<uint32_t>(encoding.ids[index]));
    token->set_special(encoding.special_mask[index] != 0);
    if (token->special()) {
      token->set_text(std::string(tokenizer.IdToToken(encoding.ids[index])));
      continue;
    }
    const tokenizers::ByteSpan span = encoding.offsets[index];
    token->set_text(text.substr(span.begin, span.end - span.begin));
    token->set_start(static_cast<uint32_t>(span.begin));
    token->set_stop(static_cast<uint32_t>(span.end));
  }
  done(OkStatus());
}

void TeiCalls::Decode(const v1::DecodeRequest& request, const CallScope& /*scope*/,
                      v1::DecodeResponse* response, Done done) const {
  const std::vector<int32_t> ids(request.ids().begin(), request.ids().end());
  Result<std::string> text = model_.text->tokenizer().Decode(ids, request.skip_special_tokens());
  if (!text.ok()) return done(InvalidArgumentError(text.status().message()));
  response->set_text(std::move(*text));
  done(OkStatus());
}

}  // namespace pergola::server
