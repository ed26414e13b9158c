// A client that sends bytes as told and reads answers one by one: for tests of the server.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace pergola::gateway::testing {

struct RawAnswer {
  int status = 0;  // 0: no whole answer came
  std::string version;
  std::multimap<std::string, std::string> headers;  // as sent: the server writes lower case
  std::string body;                                 // decoded from chunks

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// Waits at most 10 s for anything. Not copyable.
class RawClient {
 public:
  // Not connected after `limit` (0: the system's) counts as refused.
  static RawClient Tcp(int port, std::chrono::milliseconds limit = {}) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return Connect(AF_INET, reinterpret_cast<sockaddr*>(&address), sizeof(address), limit);
  }
  static RawClient Tcp6(int port) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<uint16_t>(port));
    address.sin6_addr = in6addr_loopback;
    return Connect(AF_INET6, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  static RawClient Unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    return Connect(AF_UNIX, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }

  RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { Close(); }

  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  // False: the server has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void ShutdownSend() { ::shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // As a process that is killed.
  void Reset() {
    const linger at_once{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    Close();
  }

  // The next answer; `head_only` for one to HEAD. Status 0 if it did not come whole.
  RawAnswer Read(bool head_only = false) {
    RawAnswer answer;
    const std::optional<std::string> head = Until("\r\n\r\n");
    if (!head || !ParseHead(*head, &answer)) return RawAnswer{};
    const bool none =
        head_only || answer.status < 200 || answer.status == 204 || answer.status == 304;
    if (none) return answer;
    if (answer.header("transfer-encoding") == "chunked") {
      while (true) {
        const std::optional<std::string> size = Until("\r\n");
        const size_t bytes = size ? std::stoul(*size, nullptr, 16) : 0;
        if (!size || !Take(bytes, &answer.body) || Until("\r\n") != "") return RawAnswer{};
        if (bytes == 0) return answer;
      }
    }
    if (answer.headers.contains("content-length")) {
      return Take(std::stoul(answer.header("content-length")), &answer.body) ? answer : RawAnswer{};
    }
    if (!WaitClosed()) return RawAnswer{};
    answer.body.swap(buffer_);
    return answer;
  }
  RawAnswer Ask(std::string_view bytes) {
    Send(bytes);
    return Read();
  }

  // True once the server has closed; what came before stays in rest().
  bool WaitClosed() {
    while (More()) {
    }
    return ended_;
  }
  const std::string& rest() const { return buffer_; }

 private:
  explicit RawClient(int fd) : fd_(fd) {}

  static RawClient Connect(int family, const sockaddr* address, socklen_t size,
                           std::chrono::milliseconds limit = {}) {
    const int fd = ::socket(family, SOCK_STREAM, 0);
    const timeval latest{limit.count() / 1000, limit.count() % 1000 * 1000};
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &latest, sizeof(latest));
    if (::connect(fd, address, size) == 0) return RawClient(fd);
    ::close(fd);
    return RawClient(-1);
  }

  bool More() {
    pollfd waiting{fd_, POLLIN, 0};
    if (::poll(&waiting, 1, 10'000) != 1) return false;
    char piece[65536];
    const ssize_t received = ::recv(fd_, piece, sizeof(piece), 0);
    if (received <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(piece, static_cast<size_t>(received));
    return true;
  }

  std::optional<std::string> Until(std::string_view mark) {
    size_t at;
    while ((at = buffer_.find(mark)) == std::string::npos) {
      if (!More()) return std::nullopt;
    }
    std::string part = buffer_.substr(0, at);
    buffer_.erase(0, at + mark.size());
    return part;
  }

  bool Take(size_t bytes, std::string* out) {
    while (buffer_.size() < bytes) {
      if (!More()) return false;
    }
    out->append(buffer_, 0, bytes);
    buffer_.erase(0, bytes);
    return true;
  }

  static bool ParseHead(const std::string& head, RawAnswer* answer) {
    if (head.size() < 12 || !head.starts_with("HTTP/1.")) return false;
    answer->version = head.substr(0, 8);
    answer->status = std::stoi(head.substr(9, 3));
    size_t at = head.find("\r\n");
    while (at != std::string::npos) {
      const size_t end = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, end == std::string::npos ? end : end - at - 2);
      const size_t colon = line.find(": ");
      if (colon == std::string::npos) return false;
      answer->headers.emplace(line.substr(0, colon), line.substr(colon + 2));
      at = end;
    }
    return true;
  }

  int fd_;
  bool ended_ = false;
  std::string buffer_;
};

}  // namespace pergola::gateway::testing
