#include "gateway/http_exchange.h"

#include <utility>

namespace pergola::gateway {
namespace {

class Answerer {
 public:
  Answerer(std::shared_ptr<HttpExchange> exchange, std::function<HttpResponse()> when_dropped)
      : exchange_(std::move(exchange)), when_dropped_(std::move(when_dropped)) {}
  ~Answerer() {
    if (!answered_.load()) Answer(when_dropped_());
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
  const std::function<HttpResponse()> when_dropped_;
  std::atomic<bool> answered_ = false;
};

}  // namespace

HttpRespond MakeRespond(std::shared_ptr<HttpExchange> exchange,
                        std::function<HttpResponse()> when_dropped) {
  auto answerer = std::make_shared<Answerer>(std::move(exchange), std::move(when_dropped));
  return [answerer](HttpResponse response) { answerer->Answer(std::move(response)); };
}

}  // namespace pergola::gateway
