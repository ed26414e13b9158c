// The servers behind a gateway: fixed addresses, and names that are resolved again and again, so
// that servers may come and go.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto directory, BackendDirectory::Make(
//       {"10.0.0.7:42668", "dns:///pergola-server:42668"}, LookUpHost, {}));
//   if (directory.Refresh()) set.SetReplicas(...directory.backends()...);
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/host_addresses.h"
#include "pergola/status.h"
#include "rpc/remote_service.h"

namespace pergola::cli {

struct Backend {
  std::string address;                          // host:port
  std::shared_ptr<rpc::RemoteService> service;  // second owners: the replica sets

  friend bool operator==(const Backend&, const Backend&) = default;
};

// Thread-confined.
class BackendDirectory {
 public:
  // `targets`: host:port, or dns:///name:port for one backend per address of the name. Connects to
  // nothing. INVALID_ARGUMENT: dns:/// without name or port.
  static Result<BackendDirectory> Make(const std::vector<std::string>& targets, HostLookup resolver,
                                       rpc::RemoteServiceOptions options);

  // Resolves the names. A name that cannot be resolved keeps the addresses that it had. True: other
  // backends than before. A backend that stays keeps its connection.
  bool Refresh();

  const std::vector<Backend>& backends() const { return backends_; }
  bool has_names() const;
  // Why the last Refresh could not resolve a name; OK if it could.
  const Status& status() const { return status_; }

 private:
  struct Target {
    std::string name;  // of dns:///; empty: a fixed address
    std::string port;
    std::vector<std::string> addresses;  // with port
  };
  BackendDirectory(HostLookup resolver, rpc::RemoteServiceOptions options)
      : resolver_(std::move(resolver)), options_(std::move(options)) {}

  HostLookup resolver_;
  rpc::RemoteServiceOptions options_;
  std::vector<Target> targets_;
  std::vector<Backend> backends_;  // each address once
  Status status_;
};

}  // namespace pergola::cli
