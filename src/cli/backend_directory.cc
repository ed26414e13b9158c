#include "cli/backend_directory.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace pergola::cli {

Result<BackendDirectory> BackendDirectory::Make(const std::vector<std::string>& targets,
                                                HostLookup resolver,
                                                rpc::RemoteServiceOptions options) {
  constexpr std::string_view kScheme = "dns:///";
  BackendDirectory directory(std::move(resolver), std::move(options));
  for (const std::string& text : targets) {
    Target& target = directory.targets_.emplace_back();
    if (!text.starts_with(kScheme)) {
      target.addresses = {text};
      continue;
    }
    const size_t colon = text.rfind(':');
    target.name = text.substr(kScheme.size(), std::max(colon, kScheme.size()) - kScheme.size());
    target.port = text.substr(colon + 1);
    const bool digits =
        !target.port.empty() && std::all_of(target.port.begin(), target.port.end(),
                                            [](char c) { return c >= '0' && c <= '9'; });
    if (target.name.empty() || !digits) {
      return InvalidArgumentError("backend '" + text + "' is not dns:///name:port");
    }
  }
  return directory;
}

bool BackendDirectory::has_names() const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [](const Target& target) { return !target.name.empty(); });
}

bool BackendDirectory::Refresh() {
  status_ = OkStatus();
  std::vector<Backend> backends;
  for (Target& target : targets_) {
    if (!target.name.empty()) {
      auto addresses = resolver_(target.name);
      if (addresses.ok() && addresses->empty()) {
        addresses = UnavailableError("'" + target.name + "' has no address");
      }
      if (addresses.ok()) {
        target.addresses = std::move(*addresses);
        for (std::string& address : target.addresses) address += ":" + target.port;
      } else {
        status_ = addresses.status();
      }
    }
    rpc::RemoteServiceOptions options = options_;
    options.tls_name = target.name;
    for (const std::string& address : target.addresses) {
      const auto is_it = [&](const Backend& backend) { return backend.address == address; };
      if (std::any_of(backends.begin(), backends.end(), is_it)) continue;
      const auto known = std::find_if(backends_.begin(), backends_.end(), is_it);
      backends.push_back(
          known != backends_.end()
              ? *known
              : Backend{address, std::make_shared<rpc::RemoteService>(address, options)});
    }
  }
  const bool changed = backends != backends_;
  backends_ = std::move(backends);
  return changed;
}

}  // namespace pergola::cli
