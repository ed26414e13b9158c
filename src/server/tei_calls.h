// What the methods of TEI's gRPC services do, without gRPC: messages in, messages out.
//
//   calls.Embed(request, scope, &response, [](const Status& status) { ... });
//
// The texts are prepared on the calling thread; `done` is called once, on any thread, possibly
// before the method returns. Request and response must live until then. Errors: INVALID_ARGUMENT
// for an empty or too long input, an unknown enum value, prompt or size; FAILED_PRECONDITION for
// what the model cannot do; and those of service::InferenceService.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pergola/status.h"
#include "server/served_model.h"
#include "service/inference_service.h"
#include "text/text_model.h"

namespace tei::v1 {
class DecodeRequest;
class DecodeResponse;
class EmbedAllRequest;
class EmbedAllResponse;
class EmbedRequest;
class EmbedResponse;
class EmbedSparseRequest;
class EmbedSparseResponse;
class EncodeRequest;
class EncodeResponse;
class InfoResponse;
class Metadata;
class PredictPairRequest;
class PredictRequest;
class PredictResponse;
class RerankRequest;
class RerankResponse;
}  // namespace tei::v1

namespace pergola::server {

// Who waits for a call, and how long.
struct CallScope {
  service::Clock::time_point deadline = service::Clock::time_point::max();
  // Second owner: the gRPC call. May be null.
  std::shared_ptr<service::CancelToken> cancel = nullptr;
};

// Of one model. Thread-safe.
class TeiCalls {
 public:
  using Done = std::function<void(const Status&)>;

  // `model` must have a text side and outlive this. `answered` is called at each success of the
  // model; may be empty.
  TeiCalls(const ServedModel& model, std::function<void()> answered);

  void Info(tei::v1::InfoResponse* response) const;
  void Embed(const tei::v1::EmbedRequest& request, const CallScope& scope,
             tei::v1::EmbedResponse* response, Done done) const;
  void EmbedSparse(const tei::v1::EmbedSparseRequest& request, const CallScope& scope,
                   tei::v1::EmbedSparseResponse* response, Done done) const;
  void EmbedAll(const tei::v1::EmbedAllRequest& request, const CallScope& scope,
                tei::v1::EmbedAllResponse* response, Done done) const;
  void Predict(const tei::v1::PredictRequest& request, const CallScope& scope,
               tei::v1::PredictResponse* response, Done done) const;
  void PredictPair(const tei::v1::PredictPairRequest& request, const CallScope& scope,
                   tei::v1::PredictResponse* response, Done done) const;
  void Rerank(const tei::v1::RerankRequest& request, const CallScope& scope,
              tei::v1::RerankResponse* response, Done done) const;
  void Tokenize(const tei::v1::EncodeRequest& request, const CallScope& scope,
                tei::v1::EncodeResponse* response, Done done) const;
  void Decode(const tei::v1::DecodeRequest& request, const CallScope& scope,
              tei::v1::DecodeResponse* response, Done done) const;

  bool embeds() const { return model_.info.has(OutputKind::kEmbedding); }
  bool classifies() const { return model_.info.has(OutputKind::kLogits); }
  bool reranks() const { return model_.info.width(OutputKind::kLogits) == 1; }

 private:
  struct Work;
  using WorkPtr = std::shared_ptr<Work>;
  using Fill = std::function<void(const Work& work, const service::InferenceOutput& output)>;

  // Adds a text, or a pair, to what is asked. INVALID_ARGUMENT.
  Status Add(const std::string& text, const text::PrepareOptions& options, Work* work) const;
  Status AddPair(const std::string& first, const std::string& second,
                 const text::PrepareOptions& options, Work* work) const;
  // Asks the model, fills the response, calls `done`.
  void Submit(WorkPtr work, const CallScope& scope, Fill fill, Done done) const;
  void FillPredictions(const Work& work, const service::InferenceOutput& output, bool raw,
                       tei::v1::PredictResponse* response) const;

  const ServedModel& model_;
  const std::function<void()> answered_;
};

}  // namespace pergola::server
