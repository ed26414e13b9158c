// How long a model's weights stay in memory after its last request, as Ollama's clients write it.
//
//   PERGOLA_ASSIGN_OR_RETURN(const auto keep_alive, service::ParseKeepAlive("5m"));
//   const Clock::time_point expires = service::ExpiryOf(Clock::now(), keep_alive);
#pragma once

#include <chrono>
#include <string_view>

#include "pergola/status.h"
#include "service/inference_service.h"

namespace pergola::service {

inline constexpr std::chrono::milliseconds kKeepForever = std::chrono::milliseconds::max();

// Seconds ("300", "0.5"), or numbers with units end to end: "5m", "1h30m", "250ms"; units are h, m,
// s, ms, us and ns. Negative: kKeepForever, as is what exceeds a century. INVALID_ARGUMENT quotes
// the beginning of `text`.
Result<std::chrono::milliseconds> ParseKeepAlive(std::string_view text);

// The same of a number of seconds; not for NaN.
std::chrono::milliseconds KeepAliveOf(double seconds);

// When weights go that were last used at `now`.
Clock::time_point ExpiryOf(Clock::time_point now, std::chrono::milliseconds keep_alive);

}  // namespace pergola::service
