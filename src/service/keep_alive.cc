#include "service/keep_alive.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

namespace pergola::service {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};
// Longer names before those that they begin with.
constexpr std::array<Unit, 7> kUnits = {{{"ms", 1e-3},
                                         {"us", 1e-6},
                                         {"\u00b5s", 1e-6},
                                         {"ns", 1e-9},
                                         {"h", 3600},
                                         {"m", 60},
                                         {"s", 1}}};

// Takes a number without sign off the front: digits, perhaps with a point.
std::optional<double> TakeNumber(std::string_view* text) {
  const size_t length = std::min(text->find_first_not_of("0123456789."), text->size());
  double number = 0;
  const char* const end = text->data() + length;
  const auto [stop, error] = std::from_chars(text->data(), end, number, std::chars_format::fixed);
  if (length == 0 || stop != end || error != std::errc()) return std::nullopt;
  text->remove_prefix(length);
  return number;
}

// Seconds per unit of the name at the front, which is taken off.
std::optional<double> TakeUnit(std::string_view* text) {
  for (const Unit& unit : kUnits) {
    if (!text->starts_with(unit.name)) continue;
    text->remove_prefix(unit.name.size());
    return unit.seconds;
  }
  return std::nullopt;
}

std::optional<double> SecondsOf(std::string_view text) {
  double seconds = 0;
  bool only_number = true;
  do {
    const std::optional<double> number = TakeNumber(&text);
    if (!number) return std::nullopt;
    if (text.empty() && only_number) return number;
    const std::optional<double> unit = TakeUnit(&text);
    if (!unit) return std::nullopt;
    only_number = false;
    seconds += *number * *unit;
  } while (!text.empty());
  return seconds;
}

}  // namespace

Result<std::chrono::milliseconds> ParseKeepAlive(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::optional<double> seconds =
      SecondsOf(negative || text.starts_with('+') ? text.substr(1) : text);
  if (!seconds) {
    return InvalidArgumentError("'" + std::string(text.substr(0, 40)) +
                                "' is neither seconds nor a duration like 5m or 1h30m");
  }
  return KeepAliveOf(negative ? -*seconds : *seconds);
}

std::chrono::milliseconds KeepAliveOf(double seconds) {
  constexpr double kCentury = 100 * 366 * 86400.0;
  if (seconds < 0 || seconds > kCentury) return kKeepForever;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(seconds));
}

Clock::time_point ExpiryOf(Clock::time_point now, std::chrono::milliseconds keep_alive) {
  if (keep_alive == kKeepForever) return Clock::time_point::max();
  return now + keep_alive;
}

}  // namespace pergola::service
