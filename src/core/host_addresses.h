// The addresses that a host name stands for now.
//
//   PERGOLA_ASSIGN_OR_RETURN(const auto addresses, ResolveHost("pergola-server.default.svc"));
#pragma once

#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola {

// "10.0.0.7", "[fd00::7]"; sorted, each once. Asks the system and may take seconds. UNAVAILABLE:
// the name is not known, or nobody who would know can be asked.
Result<std::vector<std::string>> ResolveHost(const std::string& name);

}  // namespace pergola
