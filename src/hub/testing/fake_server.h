// An HTTP server in the test's process, for what a client says and does: one connection at a time,
// kept open, bodies with a length alone.
//
//   FakeServer server([](const FakeRequest& request) { return FakeAnswer{.body = "{}"}; });
//   HttpSession session(server.url(), {});
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace pergola::hub::testing {

struct FakeRequest {
  std::string method;
  std::string path;     // with the query
  std::string headers;  // as they came
  std::string body;

  bool has(const std::string& text) const { return headers.find(text) != std::string::npos; }
};

struct FakeAnswer {
  int status = 200;
  std::string body = {};
  std::string headers = {};  // lines that end in "\r\n"
};

// `handler` is called by the server's thread, one request after the other.
class FakeServer {
 public:
  explicit FakeServer(std::function<FakeAnswer(const FakeRequest&)> handler)
      : handler_(std::move(handler)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener_, 16);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeServer() {
    stopping_ = true;
    shutdown(listener_, SHUT_RDWR);  // ends accept
    if (const int now = connection_; now >= 0) shutdown(now, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void Serve() {
    while (!stopping_) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      connection_ = connection;
      if (stopping_) shutdown(connection, SHUT_RDWR);
      buffer_.clear();
      while (AnswerOne(connection)) {
      }
      connection_ = -1;
      close(connection);
    }
  }

  bool Fill(int connection) {
    char bytes[65536];
    const ssize_t got = recv(connection, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  bool AnswerOne(int connection) {
    size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill(connection)) return false;
    }
    FakeRequest request;
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    const size_t first = head.find(' ');
    request.method = head.substr(0, first);
    request.path = head.substr(first + 1, head.find(' ', first + 1) - first - 1);
    request.headers = head.substr(head.find("\r\n") + 2);
    const size_t length = request.headers.find("Content-Length: ");
    const size_t bytes = length == std::string::npos
                             ? 0
                             : std::strtoull(request.headers.c_str() + length + 16, nullptr, 10);
    while (buffer_.size() < bytes) {
      if (!Fill(connection)) return false;
    }
    request.body = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    const FakeAnswer answer = handler_(request);
    const std::string text = "HTTP/1.1 " + std::to_string(answer.status) +
                             " Answer\r\nContent-Length: " + std::to_string(answer.body.size()) +
                             "\r\n" + answer.headers + "\r\n" + answer.body;
    return send(connection, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  const std::function<FakeAnswer(const FakeRequest&)> handler_;
  const int listener_;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connection_ = -1;
  std::string buffer_;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace pergola::hub::testing
