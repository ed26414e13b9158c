#include "cli/grid_tls.h"

#include "cli/whole_file.h"

namespace pergola::cli {
namespace {

// Empty for no file.
Result<std::string> ReadIfNamed(const std::string& path) {
  if (path.empty()) return std::string();
  return ReadWholeFile(path);
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
  grid::FrameTlsPem pem;
  PERGOLA_ASSIGN_OR_RETURN(pem.cert_pem, ReadIfNamed(files.cert));
  PERGOLA_ASSIGN_OR_RETURN(pem.key_pem, ReadIfNamed(files.key));
  PERGOLA_ASSIGN_OR_RETURN(const std::string client_ca, ReadIfNamed(files.client_ca));
  PERGOLA_ASSIGN_OR_RETURN(const std::string server_ca, ReadIfNamed(files.server_ca));
  tls.server_link = {pem.cert_pem, pem.key_pem, client_ca};
  tls.client_link = {pem.cert_pem, pem.key_pem, server_ca};
  if (!files.cert.empty()) {
    pem.ca_pem = client_ca;
    auto made = grid::FrameTls::Server(pem);
    if (!made.ok()) return made.status().WithContext(files.cert);
    tls.server = std::move(*made);
  }
  if (!files.server_ca.empty()) {
    pem.ca_pem = server_ca;
    auto made = grid::FrameTls::Client(pem);
    if (!made.ok()) return made.status().WithContext(files.server_ca);
    tls.client = std::move(*made);
  }
  return tls;
}

Status CheckHttpAdmission(const GridTlsFiles& files, const std::string& api_key_file) {
  if (files.client_ca.empty() || !api_key_file.empty()) return OkStatus();
  return InvalidArgumentError(
      "--tls-client-ca needs --api-key-file: the HTTP port asks for keys, not for certificates");
}

}  // namespace pergola::cli
