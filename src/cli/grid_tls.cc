#include "cli/grid_tls.h"

#include "cli/serving.h"
#include "cli/whole_file.h"

namespace pergola::cli {
namespace {

// Empty for no file.
Result<std::string> ReadIfNamed(const std::string& path) {
  if (path.empty()) return std::string();
  return ReadWholeFile(path);
}

struct GridPem {
  grid::FrameTlsPem server;
  grid::FrameTlsPem client;
};

Result<GridPem> ReadPem(const GridTlsFiles& files) {
  GridPem pem;
  PERGOLA_ASSIGN_OR_RETURN(pem.server.cert_pem, ReadIfNamed(files.cert));
  PERGOLA_ASSIGN_OR_RETURN(pem.server.key_pem, ReadIfNamed(files.key));
  pem.client = pem.server;
  PERGOLA_ASSIGN_OR_RETURN(pem.server.ca_pem, ReadIfNamed(files.client_ca));
  PERGOLA_ASSIGN_OR_RETURN(pem.client.ca_pem, ReadIfNamed(files.server_ca));
  return pem;
}

rpc::LinkTls LinkTlsOf(const grid::FrameTlsPem& pem) {
  return {pem.cert_pem, pem.key_pem, pem.ca_pem};
}

// Errors name the file, and what it was for stays as it was.
Status RenewFrames(const GridTlsFiles& files, const GridTls& tls, const GridPem& pem) {
  if (tls.server != nullptr) {
    PERGOLA_RETURN_IF_ERROR(tls.server->Renew(pem.server).WithContext(files.cert));
  }
  if (tls.client == nullptr) return OkStatus();
  return tls.client->Renew(pem.client).WithContext(files.server_ca);
}

Status RenewJoining(const GridPem& pem, const GridPorts& ports) {
  if (ports.link != nullptr) ports.link->RenewTls(LinkTlsOf(pem.client));
  return ports.listener == nullptr ? OkStatus() : ports.listener->RenewTls(LinkTlsOf(pem.server));
}

}  // namespace

Result<GridTls> ReadGridTls(const GridTlsFiles& files) {
  GridTls tls;
  if (files.cert.empty() != files.key.empty()) {
    return InvalidArgumentError("--tls-cert and --tls-key go together");
  }
  if (!files.client_ca.empty() && files.cert.empty()) {
    return InvalidArgumentError("--tls-client-ca needs --tls-cert and --tls-key");
  }
  PERGOLA_ASSIGN_OR_RETURN(const GridPem pem, ReadPem(files));
  tls.server_link = LinkTlsOf(pem.server);
  tls.client_link = LinkTlsOf(pem.client);
  if (!files.cert.empty()) {
    auto made = grid::FrameTls::Server(pem.server);
    if (!made.ok()) return made.status().WithContext(files.cert);
    tls.server = std::move(*made);
  }
  if (!files.server_ca.empty()) {
    auto made = grid::FrameTls::Client(pem.client);
    if (!made.ok()) return made.status().WithContext(files.server_ca);
    tls.client = std::move(*made);
  }
  return tls;
}

void RenewTls(const GridTlsFiles& files, const GridTls& tls, const GridPorts& ports) {
  const Result<GridPem> pem = ReadPem(files);
  Status status = pem.ok() ? RenewFrames(files, tls, *pem) : pem.status();
  TellReloaded(status, "certificates of frames");
  if (ports.http != nullptr && ports.http->has_tls()) {
    TellReloaded(ports.http->ReloadCertificates(), "certificates of HTTP");
  }
  if (ports.listener == nullptr && ports.link == nullptr) return;
  // Frames have found that the texts can be used.
  if (status.ok()) status = RenewJoining(*pem, ports);
  TellReloaded(status, "certificates of joining");
}

Status CheckHttpAdmission(const GridTlsFiles& files, const std::string& api_key_file) {
  if (files.client_ca.empty() || !api_key_file.empty()) return OkStatus();
  return InvalidArgumentError(
      "--tls-client-ca needs --api-key-file: the HTTP port asks for keys, not for certificates");
}

}  // namespace pergola::cli
