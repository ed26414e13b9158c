// Answers every HTTP route: the gateway's middle, between the server that reads and writes messages
// and the services that compute. docs/http.md states what it promises.
//
//   auto routes = std::make_shared<Routes>(RoutesOptions{.models = {{service, info, text}}});
//   server_options.observer = [&](const RequestLog& log) { routes->metrics().CountRequest(log); };
//   PERGOLA_ASSIGN_OR_RETURN(auto server, HttpServer::Start(server_options, routes));
//
// A request goes: route table -> dialect parse -> model, prompts, tokens (embed_path.h) ->
// InferenceService::Submit -> dialect render. Small requests do all of it on the calling thread,
// and of all sizes those that may block; other large bodies, and large answers, move to a pool, so
// that no network thread is held up.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gateway/http_types.h"
#include "gateway/metrics.h"
#include "service/inference_service.h"
#include "text/text_model.h"

namespace pergola::gateway {

struct ServedModel {
  // Second owner: whoever started it and shuts it down.
  std::shared_ptr<service::InferenceService> service;
  service::ModelInfo info;
  std::shared_ptr<const text::TextModel> text;  // second owner: the engine
};

struct RoutesOptions {
  std::vector<ServedModel> models;  // at least one; the first is the default

  int64_t max_batch_inputs = 2048;
  int64_t max_body_bytes = int64_t{16} << 20;  // told by /info; the server enforces it
  int64_t max_tokenize_tokens = 1'000'000;     // of one /tokenize request
  bool strict_model = false;                   // refuse other names though one model is served
  bool allow_any_dimensions = false;           // though the model declares Matryoshka widths
  bool average_long = false;  // texts beyond the model's length are embedded in parts
  bool open_metrics = false;  // /metrics without a key
  bool open_docs = false;     // /docs and /openapi.json without a key
  // For a request that comes without a deadline (HttpRequest::deadline); the server sets one.
  std::chrono::milliseconds default_timeout{300'000};
  std::string version = PERGOLA_VERSION;

  int num_workers = 2;
  // Bodies and answers up to here are handled on the calling thread: a hand-over costs 80 us on a
  // small virtual machine, tokenising 2 KiB about as much.
  int64_t inline_body_bytes = 2048;
  int64_t inline_answer_values = 8192;

  // For answers to bodies that come again (answer_cache.h), of models whose rows_identity is known.
  size_t answer_cache_bytes = 0;

  // Second owner: the server's observer, which counts requests in it. Made when null.
  std::shared_ptr<Metrics> metrics;
};

// Thread-safe. Outlives its requests: the destructor waits for those that it has begun.
class Routes : public HttpHandler {
 public:
  explicit Routes(RoutesOptions options);
  ~Routes() override;

  RouteCheck Check(std::string_view method, std::string_view path) const override;
  HttpResponse RenderError(std::string_view path, int status,
                           std::string_view message) const override;
  void Handle(HttpRequest request, HttpRespond respond) override;

  Metrics& metrics();
  // No request is in work, nor an answer that is still being made.
  bool idle() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pergola::gateway
