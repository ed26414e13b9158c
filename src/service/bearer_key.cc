#include "service/bearer_key.h"

#include "core/ascii.h"

namespace pergola::service {

std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!EqualsIgnoringCase(authorization.substr(0, kScheme.size()), kScheme)) return {};
  return Trimmed(authorization.substr(kScheme.size()));
}

}  // namespace pergola::service
