// Request ids: taken over from the client if it is a sane token, else made.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pergola::gateway {

// 1 to 128 of A-Z a-z 0-9 . _ -
bool IsSaneRequestId(std::string_view id);

// "req-" and 16 hex digits: unique within the process, unlikely to meet again in another.
// Thread-safe.
std::string MakeRequestId();

// `given`: the client's x-request-id header, if any.
std::string RequestIdFor(std::optional<std::string_view> given);

}  // namespace pergola::gateway
