// One request between its connection and its handler: takes the answer from any thread, once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "gateway/byte_budget.h"
#include "gateway/http_types.h"

namespace pergola::gateway {

// Owned by the connection and by the handler's HttpRespond together: the body's bytes stay reserved
// until both have let go.
struct HttpExchange {
  explicit HttpExchange(std::shared_ptr<ByteBudget> budget) : body_bytes(std::move(budget)) {}

  ByteReservation body_bytes;
  // Runs work on the connection's thread, or drops it once the server is gone. Thread-safe.
  std::function<void(std::function<void()>)> post;

  // The rest belongs to the connection's thread.
  std::optional<HttpResponse> response;
  bool dropped = false;        // the handler let go of the request without an answer
  std::function<void()> wake;  // empty when the connection waits no more
};

// What the handler calls. The first call counts; if every copy goes away without one, `dropped` is
// set: the client must not wait for a handler that forgot it. Keeps neither server nor handler
// alive.
HttpRespond MakeRespond(std::shared_ptr<HttpExchange> exchange);

}  // namespace pergola::gateway
