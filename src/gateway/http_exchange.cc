#include "gateway/http_exchange.h"

#include <utility>

namespace pergola::gateway {
namespace {

class Answerer {
 public:
  explicit Answerer(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}
  ~Answerer() {
    if (answered_.load()) return;
    exchange_->post([exchange = exchange_] {
      exchange->dropped = true;
      if (exchange->wake) exchange->wake();
    });
  }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  void Answer(HttpResponse response) {
    if (answered_.exchange(true)) return;
    auto answer = std::make_shared<HttpResponse>(std::move(response));  // std::function must copy
    exchange_->post([exchange = exchange_, answer] {
      if (!exchange->wake) return;
      exchange->response = std::move(*answer);
      exchange->wake();
    });
  }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
  std::atomic<bool> answered_ = false;
};

}  // namespace

HttpRespond MakeRespond(std::shared_ptr<HttpExchange> exchange) {
  auto answerer = std::make_shared<Answerer>(std::move(exchange));
  return [answerer](HttpResponse response) { answerer->Answer(std::move(response)); };
}

}  // namespace pergola::gateway
