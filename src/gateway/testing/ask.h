// Asks a Routes a question without a socket and waits for the answer.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/http_types.h"

namespace pergola::gateway::testing {

struct Question {
  std::string method = "POST";
  std::string path;
  std::string body;
  service::Clock::time_point deadline = service::Clock::time_point::max();
  std::shared_ptr<service::CancelToken> cancel = std::make_shared<service::CancelToken>();
  std::shared_ptr<KeyUsage> key_usage = nullptr;
};

// The answer with all of its chunks in `body`.
inline HttpResponse Ask(HttpHandler& handler, Question question) {
  HttpRequest request;
  request.method = std::move(question.method);
  request.path = std::move(question.path);
  request.raw_target = request.path;
  request.body = std::move(question.body);
  request.request_id = "test";
  request.received = service::Clock::now();
  request.deadline = question.deadline;
  request.cancel = std::move(question.cancel);
  request.key_usage = std::move(question.key_usage);
  std::promise<HttpResponse> promise;
  std::future<HttpResponse> future = promise.get_future();
  handler.Handle(std::move(request),
                 [&promise](HttpResponse response) { promise.set_value(std::move(response)); });
  HttpResponse response = future.get();
  if (response.next_chunk) {
    while (response.next_chunk(&response.body)) {
    }
    response.next_chunk = nullptr;
  }
  return response;
}

inline const std::string* FindHeader(const HttpResponse& response, std::string_view name) {
  for (const HttpHeader& header : response.headers) {
    if (header.name == name) return &header.value;
  }
  return nullptr;
}

}  // namespace pergola::gateway::testing
