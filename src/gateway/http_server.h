// The HTTP/1.1 transport: sockets, TLS, framing, limits, deadlines, keys. What a path means is the
// HttpHandler's affair.
//
//   HttpServerOptions options;
//   options.port = 0;
//   PERGOLA_ASSIGN_OR_RETURN(auto server, HttpServer::Start(options, handler));
//   Print(server->addresses());
//   ... SIGTERM ...
//   server->Drain(std::chrono::seconds(30));
//
// Few network threads serve all connections and never compute or wait, but for requests of a client
// that nobody else sends beside (event_loop.h): then another one takes their place. A request
// reaches the handler when its head passed every check (route, method, key, content type, sizes)
// and its body is whole and inflated; all other requests are answered here with the handler's error
// rendering. Every answer carries x-request-id, x-content-type-options, server and date.
//
// A peer that closes its sending side while its request is in work counts as gone: the request is
// cancelled and the connection closed. HTTP/2 is not spoken.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/http_types.h"
#include "pergola/status.h"

namespace pergola::gateway {

// One answered (or given up) request, for metrics, access log and audit.
struct RequestLog {
  std::string method;                    // empty if the head could not be read
  std::string path;                      // decoded; empty as above
  std::string route;                     // RouteCheck::route; empty: no such route
  int status = 0;                        // 499: the client went away before it had the whole answer
  std::chrono::nanoseconds duration{0};  // from the whole request received to the answer written
  uint64_t received_bytes = 0;           // body as sent, before inflating
  uint64_t sent_bytes = 0;               // body as sent, after compressing
  std::string request_id;
  std::string peer;  // "127.0.0.1:52114", "[::1]:52114", "unix"
  int api_key = -1;  // number of the key used, in file order; -1: none needed
  // Times of its stages and its place in a trace. Null when the head could not be read. Second
  // owner: whoever works on the request.
  std::shared_ptr<const RequestTrace> trace;
};

// Called on a network thread after each request: must not block.
using RequestObserver = std::function<void(const RequestLog&)>;

// Flags of `pergola serve` set these. A deadline of 0 means: none.
struct HttpServerOptions {
  // Names or addresses to listen on, "127.0.0.1", "::1", "localhost"; may be empty with a unix
  // socket.
  std::vector<std::string> hosts = {"127.0.0.1"};
  int port = 42666;           // 0: the system picks one, the same for all hosts
  std::string unix_socket;    // path; a stale socket file there is replaced. Empty: none
  std::string tls_cert_file;  // PEM chain; TLS 1.2 or later on the TCP ports. Empty: plain HTTP
  std::string tls_key_file;   // PEM

  // One moves some 30,000 small requests a second. Each has another one beside it that sleeps.
  int network_threads = 1;
  int worker_threads = 2;  // for gzip of large bodies and HttpResponse::next_chunk

  int max_connections = 4096;  // beyond, the longest idle one is closed for a new one
  std::chrono::milliseconds keepalive_timeout = std::chrono::seconds(75);
  int64_t keepalive_max_requests = 0;  // on one connection; 0: no limit

  int64_t header_limit_bytes = 64 * 1024;
  std::chrono::milliseconds header_deadline = std::chrono::seconds(10);
  int64_t max_body_bytes = 16 << 20;      // as sent and inflated
  int64_t body_budget_bytes = 256 << 20;  // of all bodies in work together; beyond: 503
  // A body may take body_deadline plus 1 s for each body_bytes_per_second received; so may an
  // answer.
  std::chrono::milliseconds body_deadline = std::chrono::seconds(30);
  int64_t body_bytes_per_second = 64 * 1024;

  // From the whole request received to the answer's first byte, unless x-request-timeout-ms says
  // another.
  std::chrono::milliseconds request_timeout = std::chrono::seconds(300);
  // How long a closing connection goes on reading what the peer still sends, so that it sees the
  // answer.
  std::chrono::milliseconds linger_timeout = std::chrono::seconds(5);

  // How long Drain waits for the rest of a request that has come in part, and then for clients to
  // take their answers; a third of its limit at most.
  std::chrono::milliseconds drain_grace = std::chrono::seconds(1);

  std::string api_key_file;               // see auth.h; empty: no keys needed
  bool open_metrics = false;              // /metrics without a key
  bool open_docs = false;                 // /docs and /openapi.json without a key
  std::vector<std::string> cors_origins;  // "https://app.example" or "*"; empty: no CORS

  RequestObserver observer;  // may be empty
  // Whether traces that begin here are sampled: somebody takes their spans. Those of clients say it
  // themselves.
  bool sample_traces = false;
};

// A moment's counts; not one consistent snapshot.
struct HttpServerStats {
  int64_t connections = 0;
  int64_t idle_connections = 0;  // waiting for a request
  int64_t requests_in_work = 0;  // with the handler, or their answer being written
  int64_t body_bytes_held = 0;
  int64_t connections_accepted = 0;  // since the start
  int64_t connections_evicted = 0;   // idle ones closed for new ones, since the start
};

// Thread-safe.
class HttpServer {
 public:
  // Listens and serves at once. Errors: INVALID_ARGUMENT (options, certificate, key file),
  // NOT_FOUND (host name, file), ALREADY_EXISTS (address in use), PERMISSION_DENIED.
  // `handler`: second owner: the caller; kept until the last request is done.
  static Result<std::unique_ptr<HttpServer>> Start(HttpServerOptions options,
                                                   std::shared_ptr<HttpHandler> handler);
  // Closes all connections at once; returns when no thread of the server runs any more. A handler
  // may still call its HttpRespond later: nothing happens then.
  ~HttpServer();

  int port() const;  // the chosen one; 0 without TCP
  // "http://127.0.0.1:42666", "https://[::1]:42666", "unix:/run/pergola.sock".
  const std::vector<std::string>& addresses() const;

  // Stops accepting, closes idle connections and lets requests in work finish; their answers say
  // "Connection: close". What was sent before counts as in work, on connections that are yet to be
  // accepted too; a request that is not whole after options.drain_grace is answered 503, and who
  // has connected within it and not asked yet may still do so: no connection is reset whose
  // handshake takes less than 20 ms. Returns true when all are done, false when `limit` (50 ms at
  // least) passed first (the rest goes on until the destructor). Blocks; not to be called from a
  // handler. A second call waits again.
  bool Drain(std::chrono::milliseconds limit);

  // Whether there is an API key file.
  bool needs_keys() const;
  // Reads the API key file again (SIGHUP). On an error the old keys stay. OK without a key file.
  Status ReloadKeys();

  // Whether the TCP ports speak TLS.
  bool has_tls() const;
  // Reads certificate and key again (SIGHUP), for connections to come; those that stand go on with
  // the old ones. INVALID_ARGUMENT: the old ones stay. OK without TLS. Not to be called from a
  // handler.
  Status ReloadCertificates();

  HttpServerStats stats() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergola::gateway
