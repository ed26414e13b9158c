#include "gateway/json_writer.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "core/check.h"
#include "core/short_float.h"

namespace pergola::gateway {
namespace {

// Length of the valid character at text[at], or 0; *bad is then the length of the part to replace.
size_t CharacterLength(std::string_view text, size_t at, size_t* bad) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char lead = byte(at);
  *bad = 1;
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) {
      *bad = i;
      return 0;
    }
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

void AppendEscaped(unsigned char c, std::string* out) {
  switch (c) {
    case '"':
      out->append("\\\"");
      return;
    case '\\':
      out->append("\\\\");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    default: {
      constexpr char kHex[] = "0123456789abcdef";
      out->append("\\u00");
      out->push_back(kHex[c >> 4]);
      out->push_back(kHex[c & 15]);
    }
  }
}

bool NeedsEscape(unsigned char c) { return c < 0x20 || c == '"' || c == '\\' || c == 0x7F; }

template <typename Value>
void AppendIntegers(std::span<const Value> values, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendJsonInteger(values[i], out);
  }
  out->push_back(']');
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  size_t begin = 0;  // of what can be copied as it stands
  size_t at = 0;
  while (at < text.size()) {
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (c < 0x80 && !NeedsEscape(c)) {
      ++at;
      continue;
    }
    size_t bad = 0;
    const size_t length = CharacterLength(text, at, &bad);
    if (length > 1) {
      at += length;
      continue;
    }
    out->append(text, begin, at - begin);
    if (length == 1) {
      AppendEscaped(c, out);
      ++at;
    } else {
      out->append("\xEF\xBF\xBD");
      at += bad;
    }
    begin = at;
  }
  out->append(text, begin, at - begin);
  out->push_back('"');
}

void AppendJsonInteger(int64_t value, std::string* out) {
  std::array<char, 24> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  PERGOLA_DCHECK(error == std::errc());
  out->append(buffer.data(), end);
}

void AppendJsonFloat(float value, std::string* out) {
  std::array<char, kShortFloatBytes> buffer;
  out->append(buffer.data(), WriteShortFloat(value, buffer.data()));
}

void AppendJsonFixed(double value, int digits, std::string* out) {
  std::array<char, 400> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::fixed, digits);
  PERGOLA_DCHECK(error == std::errc());
  out->append(buffer.data(), end);
}

void AppendJsonFloats(std::span<const float> values, std::string* out) {
  constexpr size_t kLongest = 17;  // "-1.17549435e-38" and a comma
  const size_t begin = out->size();
  out->resize(begin + values.size() * kLongest + kShortFloatBytes + 2);
  char* at = out->data() + begin;
  *at++ = '[';
  at = WriteShortFloats(values, at);
  if (!values.empty()) --at;  // the last comma
  *at++ = ']';
  out->resize(static_cast<size_t>(at - out->data()));
}

void AppendJsonInt8s(std::span<const int8_t> values, std::string* out) {
  AppendIntegers(values, out);
}

void AppendJsonUint8s(std::span<const uint8_t> values, std::string* out) {
  AppendIntegers(values, out);
}

void AppendJsonBase64(std::span<const uint8_t> bytes, std::string* out) {
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const size_t begin = out->size();
  out->resize(begin + (bytes.size() + 2) / 3 * 4 + 2);
  char* to = out->data() + begin;
  *to++ = '"';
  size_t at = 0;
  for (; at + 3 <= bytes.size(); at += 3) {
    const uint32_t group = uint32_t{bytes[at]} << 16 | uint32_t{bytes[at + 1]} << 8 | bytes[at + 2];
    *to++ = kAlphabet[group >> 18];
    *to++ = kAlphabet[group >> 12 & 63];
    *to++ = kAlphabet[group >> 6 & 63];
    *to++ = kAlphabet[group & 63];
  }
  if (const size_t rest = bytes.size() - at; rest > 0) {
    const uint32_t group =
        uint32_t{bytes[at]} << 16 | (rest > 1 ? uint32_t{bytes[at + 1]} << 8 : 0);
    *to++ = kAlphabet[group >> 18];
    *to++ = kAlphabet[group >> 12 & 63];
    *to++ = rest > 1 ? kAlphabet[group >> 6 & 63] : '=';
    *to++ = '=';
  }
  *to = '"';
}

std::string Excerpt(std::string_view text, size_t max_bytes) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t bad = 0;
    const size_t length = CharacterLength(text, at, &bad);
    const size_t written = length > 0 ? length : 3;
    if (out.size() + written > max_bytes) return out + "...";
    if (length > 0) {
      out.append(text, at, length);
      at += length;
    } else {
      out.append("\xEF\xBF\xBD");
      at += bad;
    }
  }
  return out;
}

}  // namespace pergola::gateway
