#include "gateway/http_listener.h"

#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>

namespace pergola::gateway {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using UnixSocket = asio::local::stream_protocol;

Status ListenError(const std::string& address, const error_code& code) {
  const std::string message = "cannot listen on " + address + ": " + code.message();
  if (code == asio::error::address_in_use) return AlreadyExistsError(message);
  if (code == asio::error::access_denied) return PermissionDeniedError(message);
  return InvalidArgumentError(message);
}

std::string Spelled(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

void CloseAll(std::vector<ListeningSocket>* sockets) {
  for (const ListeningSocket& socket : *sockets) ::close(socket.fd);
  sockets->clear();
}

// The descriptor of an acceptor; the acceptor lets go of it.
template <typename Acceptor>
int Released(Acceptor& acceptor) {
  error_code ignored;
  acceptor.non_blocking(true, ignored);
  return acceptor.release(ignored);
}

Result<ListeningSocket> ListenOn(asio::io_context& io, const tcp::endpoint& endpoint) {
  tcp::acceptor acceptor(io);
  error_code code;
  acceptor.open(endpoint.protocol(), code);
  if (!code) acceptor.set_option(tcp::acceptor::reuse_address(true), code);
  if (!code && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(true), code);
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(asio::socket_base::max_listen_connections, code);
  if (code) return ListenError(Spelled(endpoint), code);
  ListeningSocket listening;
  listening.address = Spelled(acceptor.local_endpoint(code));
  listening.fd = Released(acceptor);
  return listening;
}

int PortOf(const ListeningSocket& socket) {
  return std::stoi(socket.address.substr(socket.address.rfind(':') + 1));
}

Status ListenOnHost(asio::io_context& io, std::string host, int* port,
                    std::vector<ListeningSocket>* sockets) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  error_code code;
  tcp::resolver resolver(io);
  const auto endpoints =
      resolver.resolve(host, std::to_string(*port), tcp::resolver::passive, code);
  if (code) return NotFoundError("host '" + host + "' is not known: " + code.message());
  Status first_error;
  bool any = false;
  for (const auto& entry : endpoints) {
    Result<ListeningSocket> socket =
        ListenOn(io, tcp::endpoint(entry.endpoint().address(), static_cast<uint16_t>(*port)));
    if (!socket.ok()) {
      if (first_error.ok()) first_error = socket.status();
      continue;
    }
    if (*port == 0) *port = PortOf(*socket);
    sockets->push_back(std::move(*socket));
    any = true;
  }
  return any ? OkStatus() : first_error;
}

Status RemoveStale(asio::io_context& io, const std::string& path) {
  std::error_code no_file;
  const auto kind = std::filesystem::symlink_status(path, no_file).type();
  if (kind == std::filesystem::file_type::not_found) return OkStatus();
  if (kind != std::filesystem::file_type::socket) {
    return AlreadyExistsError("'" + path + "' exists and is not a socket");
  }
  UnixSocket::socket probe(io);
  error_code code;
  probe.connect(UnixSocket::endpoint(path), code);
  if (!code) return AlreadyExistsError("another process listens on '" + path + "'");
  std::filesystem::remove(path, no_file);
  return OkStatus();
}

}  // namespace

Result<std::vector<ListeningSocket>> ListenTcp(const std::vector<std::string>& hosts, int* port) {
  if (*port < 0 || *port > 65535) {
    return InvalidArgumentError("port " + std::to_string(*port) + " is not within 0..65535");
  }
  asio::io_context io;
  std::vector<ListeningSocket> sockets;
  const int wanted = *port;
  // A port that is free for the first address may be taken for another one.
  for (int attempt = 0;; ++attempt) {
    Status status;
    for (const std::string& host : hosts) {
      status = ListenOnHost(io, host, port, &sockets);
      if (!status.ok()) break;
    }
    if (status.ok()) return sockets;
    CloseAll(&sockets);
    *port = wanted;
    if (wanted != 0 || attempt == 8 || status.code() != StatusCode::kAlreadyExists) return status;
  }
}

Result<ListeningSocket> ListenUnix(const std::string& path) {
  if (path.size() > 100) {
    return InvalidArgumentError("socket path '" + path + "' is longer than 100 bytes");
  }
  asio::io_context io;
  PERGOLA_RETURN_IF_ERROR(RemoveStale(io, path));
  UnixSocket::acceptor acceptor(io);
  error_code code;
  acceptor.open(UnixSocket(), code);
  if (!code) acceptor.bind(UnixSocket::endpoint(path), code);
  if (!code) acceptor.listen(asio::socket_base::max_listen_connections, code);
  if (code) return ListenError(path, code);
  ListeningSocket listening;
  listening.is_unix = true;
  listening.address = path;
  listening.fd = Released(acceptor);
  return listening;
}

void RefuseNewcomers(int fd) {
  constexpr uint32_t kFlagsOffset = 13;  // in the header of TCP
  constexpr uint32_t kSyn = 2;
  // The first packet of a connection, which alone has SYN towards a listener, is dropped.
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kFlagsOffset),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kSyn, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

}  // namespace pergola::gateway
