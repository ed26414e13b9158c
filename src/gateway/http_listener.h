// Listening sockets: names and paths become bound descriptors. Accepting is http_server.cc's.
#pragma once

#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola::gateway {

struct ListeningSocket {
  int fd = -1;  // listening, not blocking; the caller's to close
  bool is_unix = false;
  std::string address;  // "127.0.0.1:42666", "[::1]:42666", or the path
};

// Binds every address of every name to `port`; 0 picks one port for all of them, returned in *port.
// A name with several addresses ("localhost") needs only one that works. Errors (nothing stays open
// then): NOT_FOUND name; ALREADY_EXISTS address in use; PERMISSION_DENIED; INVALID_ARGUMENT
// otherwise.
Result<std::vector<ListeningSocket>> ListenTcp(const std::vector<std::string>& hosts, int* port);

// A socket file at `path` that nobody listens on is replaced. The caller removes the file in the
// end. Errors: ALREADY_EXISTS somebody listens there, or another kind of file is in the way; as
// above else.
Result<ListeningSocket> ListenUnix(const std::string& path);

// Nobody begins to connect to the TCP socket `fd` any more, while connections that are being made
// still come to be: closing it at once would reset those whose peer believes it is connected. Who
// tries asks again after a second and is refused then, by a socket that is closed by now.
void RefuseNewcomers(int fd);

}  // namespace pergola::gateway
