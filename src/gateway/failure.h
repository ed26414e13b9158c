// An error on its way to a client, and how each dialect writes it (docs/http.md, "Errors").
//
//   return Failure::Invalid("dimensions", "dimensions is 0, it must be 1..384");
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "pergola/status.h"

namespace pergola::gateway {

// Which body an error has.
enum class Envelope {
  kOpenAi,   // {"error":{"message","type","param","code"}}
  kVoyage,   // the same and "detail"
  kPlain,    // {"error":"..."}
  kSplit,    // {"error":"...","code":"..."}
  kTei,      // {"error":"...","error_type":"Validation"}
  kCohere2,  // {"message":"..."}
};

struct Failure {
  Status status;
  std::string param;   // the field at fault, or empty
  std::string code;    // "model_not_found", or empty
  bool empty = false;  // an empty list where something must be: TEI answers 400 instead of 422
  std::chrono::seconds retry_after{1};  // told with 429 and 503

  static Failure Invalid(std::string_view param, std::string message) {
    return {InvalidArgumentError(std::move(message)), std::string(param), "", false};
  }
};

// What a parse or a check returns: nothing, or why not.
using MaybeFailure = std::optional<Failure>;

// Asked in the course of long work: why nobody waits for it any more, or nothing.
using GivenUp = std::function<MaybeFailure()>;

// The HTTP status of `failure` in that dialect.
int HttpStatusOf(const Failure& failure, Envelope envelope);

// The body. `message` is cut at 600 bytes and made valid UTF-8; `param` and `code` may be empty.
struct ErrorText {
  int http_status = 400;
  std::string_view message;
  std::string_view param;
  std::string_view code;
};
std::string RenderErrorBody(Envelope envelope, const ErrorText& text);

}  // namespace pergola::gateway
