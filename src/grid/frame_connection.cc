#include "grid/frame_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace pergola::grid {
namespace {

constexpr std::chrono::milliseconds kConnectTimeout{1000};
// How often a call that waits looks at its limit.
constexpr std::chrono::milliseconds kLimitPeriod{50};

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// "host:port" without scheme and brackets.
bool SplitEndpoint(std::string text, std::string* host, std::string* port) {
  for (const std::string_view scheme :
       {std::string_view("pergola://"), kTlsScheme, std::string_view("grpc://")}) {
    if (text.starts_with(scheme)) text.erase(0, scheme.size());
  }
  while (!text.empty() && text.back() == '/') text.pop_back();
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return false;
  *host = text.substr(0, colon);
  *port = text.substr(colon + 1);
  if (host->size() > 2 && host->front() == '[' && host->back() == ']') {
    *host = host->substr(1, host->size() - 2);
  }
  return !host->empty();
}

// 0, or why not.
int ConnectTo(int socket, const addrinfo& address, std::chrono::milliseconds timeout) {
  const int flags = fcntl(socket, F_GETFL);
  fcntl(socket, F_SETFL, flags | O_NONBLOCK);
  if (connect(socket, address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd wait{socket, POLLOUT, 0};
    if (poll(&wait, 1, static_cast<int>(timeout.count())) <= 0) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  fcntl(socket, F_SETFL, flags);
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return 0;
}

}  // namespace

FrameConnection& FrameConnection::operator=(FrameConnection&& other) noexcept {
  Close();
  socket_ = std::exchange(other.socket_, -1);
  limit_ = other.limit_;
  tls_ = std::move(other.tls_);
  return *this;
}

void FrameConnection::Close() {
  tls_.reset();
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

Result<FrameConnection> FrameConnection::Connect(const std::string& endpoint,
                                                 const CallLimit& limit, const FrameTls* tls) {
  std::string host, port;
  if (!SplitEndpoint(endpoint, &host, &port)) {
    return InvalidArgumentError("'" + endpoint + "' is no host:port");
  }
  if (!endpoint.starts_with(kTlsScheme)) tls = nullptr;
  if (endpoint.starts_with(kTlsScheme) && tls == nullptr) {
    return InvalidArgumentError(endpoint + " wants TLS: name the authorities of its certificate");
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return UnavailableError(endpoint + ": " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  int error = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    FrameConnection connection(
        socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
    if (!connection.open()) continue;
    const std::chrono::milliseconds timeout = limit.Remaining(kConnectTimeout);
    error = timeout.count() > 0 ? ConnectTo(connection.socket_, *each, timeout) : ETIMEDOUT;
    if (error != 0) continue;
    connection.SetLimit(limit);
    PERGOLA_RETURN_IF_ERROR(connection.SetTimeout(kLimitPeriod));
    if (tls != nullptr) {
      PERGOLA_RETURN_IF_ERROR(connection.StartTls(*tls, host).WithContext(endpoint));
    }
    return connection;
  }
  return UnavailableError("cannot connect to " + endpoint + ": " + std::strerror(error));
}

Status FrameConnection::SetTimeout(std::chrono::milliseconds timeout) {
  const timeval limit{static_cast<time_t>(timeout.count() / 1000),
                      static_cast<suseconds_t>(timeout.count() % 1000 * 1000)};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (setsockopt(socket_, SOL_SOCKET, option, &limit, sizeof limit) != 0) {
      return InternalError(std::string("cannot set a time limit: ") + std::strerror(errno));
    }
  }
  return OkStatus();
}

// OK: there is time left to wait on.
Status FrameConnection::CheckLimit() const {
  if (limit_ && limit_->cancelled()) return CancelledError("the call was cancelled");
  if (limit_ && !limit_->passed()) return OkStatus();
  return DeadlineExceededError("the peer does not answer");
}

Status FrameConnection::StartTls(const FrameTls& tls, const std::string& host) {
  tls_ = std::make_unique<TlsSession>(tls, socket_, host);
  return tls_->Handshake([this] { return CheckLimit(); });
}

Status FrameConnection::AcceptTls(const FrameTls& tls) { return StartTls(tls, ""); }

Status FrameConnection::Send(std::string_view frame) {
  while (!frame.empty()) {
    const ssize_t sent = tls_ != nullptr ? tls_->Write(frame.data(), frame.size())
                                         : send(socket_, frame.data(), frame.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      PERGOLA_RETURN_IF_ERROR(CheckLimit());
      continue;
    }
    if (sent < 0) return UnavailableError(std::string("cannot send: ") + std::strerror(errno));
    frame.remove_prefix(static_cast<size_t>(sent));
  }
  return OkStatus();
}

Status FrameConnection::ReadExactly(std::byte* to, size_t bytes,
                                    const std::function<void()>* resting) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = tls_ != nullptr ? tls_->Read(to + done, bytes - done)
                                        : recv(socket_, to + done, bytes - done, 0);
    if (got > 0) {
      done += static_cast<size_t>(got);
      if (done < bytes && limit_) PERGOLA_RETURN_IF_ERROR(CheckLimit());
    } else if (got == 0) {
      return UnavailableError("the peer closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (resting != nullptr && done == 0) {
        (*resting)();
      } else {
        PERGOLA_RETURN_IF_ERROR(CheckLimit());
      }
    } else if (errno != EINTR) {
      return UnavailableError(std::string("cannot receive: ") + std::strerror(errno));
    }
  }
  return OkStatus();
}

Status FrameConnection::Drop(uint64_t bytes) {
  std::array<std::byte, 4096> dropped;
  while (bytes > 0) {
    const size_t step = std::min<uint64_t>(bytes, dropped.size());
    PERGOLA_RETURN_IF_ERROR(ReadExactly(dropped.data(), step));
    bytes -= step;
  }
  return OkStatus();
}

Status FrameConnection::ReceiveFrame(const std::function<void()>* resting, uint64_t most,
                                     FrameHeader* header, std::vector<std::byte>* payload) {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  PERGOLA_RETURN_IF_ERROR(ReadExactly(bytes.data(), bytes.size(), resting));
  PERGOLA_ASSIGN_OR_RETURN(*header, ParseFrameHeader(bytes));
  if (header->payload_bytes > most) {
    payload->clear();
    return Drop(header->payload_bytes);
  }
  payload->resize(header->payload_bytes);
  PERGOLA_RETURN_IF_ERROR(ReadExactly(payload->data(), payload->size()));
  return CheckPayload(*header, *payload);
}

Status FrameConnection::Receive(FrameHeader* header, std::vector<std::byte>* payload) {
  return ReceiveFrame(nullptr, kMaxPayloadBytes, header, payload);
}

Status FrameConnection::ReceiveBounded(uint64_t most, FrameHeader* header,
                                       std::vector<std::byte>* payload) {
  return ReceiveFrame(nullptr, most, header, payload);
}

Status FrameConnection::ReceiveNext(const std::function<void()>& resting, FrameHeader* header,
                                    std::vector<std::byte>* payload) {
  return ReceiveFrame(&resting, kMaxPayloadBytes, header, payload);
}

}  // namespace pergola::grid
