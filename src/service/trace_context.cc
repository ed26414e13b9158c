#include "service/trace_context.h"

#include <algorithm>
#include <random>
#include <span>

namespace pergola::service {
namespace {

// -1: none. Capitals are none: the header is written in lower case.
int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// `text` has two digits for each byte.
bool ReadHex(std::string_view text, std::span<uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = DigitOf(text[2 * i]);
    const int low = DigitOf(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

std::string ToHex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text.push_back("0123456789abcdef"[byte >> 4]);
    text.push_back("0123456789abcdef"[byte & 15]);
  }
  return text;
}

void FillRandom(std::span<uint8_t> bytes) {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  do {
    uint64_t bits = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i % 8 == 0) bits = random();
      bytes[i] = static_cast<uint8_t>(bits >> (i % 8 * 8));
    }
  } while (bytes[0] == 0);  // so that no id is all zeros
}

}  // namespace

std::optional<TraceContext> ParseTraceParent(std::string_view text) {
  constexpr size_t kSize = 55;  // 2 + 32 + 16 + 2 digits and three dashes
  std::array<uint8_t, 1> version = {};
  std::array<uint8_t, 1> flags = {};
  TraceContext context;
  if (text.size() < kSize || !ReadHex(text.substr(0, 2), version) || version[0] == 0xff) {
    return std::nullopt;
  }
  const bool end =
      version[0] == 0 ? text.size() == kSize : text.size() == kSize || text[kSize] == '-';
  const bool dashes = text[2] == '-' && text[35] == '-' && text[52] == '-';
  if (!end || !dashes || !ReadHex(text.substr(3, 32), context.trace_id) ||
      !ReadHex(text.substr(36, 16), context.span_id) || !ReadHex(text.substr(53, 2), flags) ||
      !context.valid()) {
    return std::nullopt;
  }
  context.sampled = (flags[0] & 1) != 0;
  return context;
}

std::string TraceStateOf(std::string_view header) {
  constexpr size_t kLongest = 512;
  std::string state(header);
  // Tabs may stand between members, but no metadata of gRPC may hold one.
  std::replace(state.begin(), state.end(), '\t', ' ');
  const bool right =
      state.size() <= kLongest &&
      std::all_of(state.begin(), state.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  return right ? state : std::string();
}

std::string FormatTraceParent(const TraceContext& context) {
  return "00-" + HexOf(context.trace_id) + "-" + HexOf(context.span_id) +
         (context.sampled ? "-01" : "-00");
}

TraceContext BeginTrace(bool sampled) {
  TraceContext context;
  FillRandom(context.trace_id);
  context.span_id = MakeSpanId();
  context.sampled = sampled;
  return context;
}

TraceContext ChildOf(const TraceContext& parent) {
  TraceContext child = parent;
  child.span_id = MakeSpanId();
  return child;
}

SpanId MakeSpanId() {
  SpanId id;
  FillRandom(id);
  return id;
}

std::string HexOf(const TraceId& id) { return ToHex(id); }
std::string HexOf(const SpanId& id) { return ToHex(id); }

}  // namespace pergola::service
