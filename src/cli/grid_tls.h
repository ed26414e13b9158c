// TLS of the split tier as flags name it, by files.
//
//   PERGOLA_ASSIGN_OR_RETURN(const GridTls tls, ReadGridTls(files));
//   FrameServer::Start({.tls = tls.server}, handler);
#pragma once

#include <memory>
#include <string>

#include "gateway/http_server.h"
#include "grid/frame_tls.h"
#include "pergola/status.h"
#include "rpc/grid_link.h"

namespace pergola::cli {

struct GridTlsFiles {
  std::string cert;       // of this process, as a server and as a client; empty: none
  std::string key;        // of the certificate
  std::string client_ca;  // authorities of those who ask; empty: they need no certificate
  std::string server_ca;  // authorities of those who are asked; empty: nobody with TLS is
};

struct GridTls {
  std::shared_ptr<grid::FrameTls> server;  // null without a certificate
  std::shared_ptr<grid::FrameTls> client;  // null without server_ca
  rpc::LinkTls server_link;
  rpc::LinkTls client_link;

  // "pergolas://" or "pergola://", what a server of these listens as.
  std::string scheme() const { return server == nullptr ? "pergola://" : "pergolas://"; }
};

// Errors name the file.
Result<GridTls> ReadGridTls(const GridTlsFiles& files);

// What else has certificates of the files. Null: there is none.
struct GridPorts {
  gateway::HttpServer* http = nullptr;
  rpc::GridListener* listener = nullptr;
  rpc::GridLink* link = nullptr;
};

// Rereads the files for connections to come, of frames, HTTP and joining, and says on stderr for
// each whether that was possible. What cannot be used changes nothing.
void RenewTls(const GridTlsFiles& files, const GridTls& tls, const GridPorts& ports);

// For a process with an HTTP port, which asks nobody for a certificate: INVALID_ARGUMENT where
// clients need one and `api_key_file` is empty, so that HTTP would be a way round it.
Status CheckHttpAdmission(const GridTlsFiles& files, const std::string& api_key_file);

}  // namespace pergola::cli
