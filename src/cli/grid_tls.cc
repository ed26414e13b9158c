#include "cli/grid_tls.h"

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
  tls.server_link = {pem.server.cert_pem, pem.server.key_pem, pem.server.ca_pem};
  tls.client_link = {pem.client.cert_pem, pem.client.key_pem, pem.client.ca_pem};
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

Status RenewFrameTls(const GridTlsFiles& files, const GridTls& tls) {
  PERGOLA_ASSIGN_OR_RETURN(const GridPem pem, ReadPem(files));
  if (tls.server != nullptr) {
    PERGOLA_RETURN_IF_ERROR(tls.server->Renew(pem.server).WithContext(files.cert));
  }
  if (tls.client == nullptr) return OkStatus();
  return tls.client->Renew(pem.client).WithContext(files.server_ca);
}

Status CheckHttpAdmission(const GridTlsFiles& files, const std::string& api_key_file) {
  if (files.client_ca.empty() || !api_key_file.empty()) return OkStatus();
  return InvalidArgumentError(
      "--tls-client-ca needs --api-key-file: the HTTP port asks for keys, not for certificates");
}

}  // namespace pergola::cli
