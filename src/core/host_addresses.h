// The addresses that a host name stands for now.
//
//   PERGOLA_ASSIGN_OR_RETURN(const auto addresses,
//                            ResolveHost("pergola-server.default.svc", stop.get_token()));
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola {

// The addresses of a name; may block.
using HostLookup = std::function<Result<std::vector<std::string>>(const std::string& name)>;

// "10.0.0.7", "[fd00::7]"; sorted, each once. Asks the system, which may take a minute.
// UNAVAILABLE: the name is not known, or nobody who would know can be asked.
Result<std::vector<std::string>> LookUpHost(const std::string& name);

// The same, on a thread of its own. CANCELLED as soon as `stop` is asked for: the system cannot be
// interrupted, so that thread is left to its end and its answer to nobody.
Result<std::vector<std::string>> ResolveHost(const std::string& name, std::stop_token stop,
                                             HostLookup lookup = LookUpHost);

}  // namespace pergola
