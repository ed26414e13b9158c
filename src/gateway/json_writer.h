// JSON out: functions that append to a string. No tree is built; an answer is written once, in
// order.
//
//   out->append("{\"model\":"); AppendJsonString(model, out); out->push_back('}');
//
// What they append is valid JSON in valid UTF-8 whatever the arguments hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pergola::gateway {

// With quotes. Escapes what JSON demands; invalid UTF-8 becomes U+FFFD, one per maximal bad part.
void AppendJsonString(std::string_view text, std::string* out);

void AppendJsonInteger(int64_t value, std::string* out);

// The shortest decimal that reads back as the same float; `value` must be finite.
void AppendJsonFloat(float value, std::string* out);
// For times and the like: at most `digits` places after the point.
void AppendJsonFixed(double value, int digits, std::string* out);

// [v,v,...]
void AppendJsonFloats(std::span<const float> values, std::string* out);
void AppendJsonInt8s(std::span<const int8_t> values, std::string* out);
void AppendJsonUint8s(std::span<const uint8_t> values, std::string* out);

// "..." in base64 of RFC 4648 with padding.
void AppendJsonBase64(std::span<const uint8_t> bytes, std::string* out);

// At most `max_bytes` of `text`, cut at a character, with "..." when cut; valid UTF-8. For error
// messages: what a client sent is never sent back at length.
std::string Excerpt(std::string_view text, size_t max_bytes = 120);

}  // namespace pergola::gateway
