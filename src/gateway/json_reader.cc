#include "gateway/json_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/check.h"

namespace pergola::gateway {
namespace {

namespace dom = simdjson::dom;

static_assert(sizeof(dom::element) == 16 && std::is_trivially_copyable_v<dom::element>,
              "JsonValue keeps an element as 16 bytes");

dom::element ToElement(const unsigned char* bytes) {
  dom::element element;
  std::memcpy(static_cast<void*>(&element), bytes, sizeof(element));
  return element;
}

void FromElement(const dom::element& element, unsigned char* bytes) {
  std::memcpy(bytes, static_cast<const void*>(&element), sizeof(element));
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNumberPart(char c) {
  return IsDigit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// [-] (0 | [1-9][0-9]*) [. [0-9]+] [(e|E) [+-] [0-9]+]
bool IsJsonNumber(std::string_view token) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < token.size() && IsDigit(token[at])) ++at;
    return at - begin;
  };
  if (at < token.size() && token[at] == '-') ++at;
  const size_t first = at;
  const size_t count = digits();
  if (count == 0 || (count > 1 && token[first] == '0')) return false;
  if (at < token.size() && token[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < token.size() && (token[at] == 'e' || token[at] == 'E')) {
    ++at;
    if (at < token.size() && (token[at] == '+' || token[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == token.size();
}

// Could 64 bits, or a double, be too small for it? Harmless where they would do: it only widens.
bool MayOverflow(std::string_view token) {
  const bool real = token.find_first_of(".eE") != std::string_view::npos;
  if (!real) return token.size() >= 19;
  const size_t exponent = token.find_first_of("eE");
  if (exponent == std::string_view::npos) return token.size() >= 300;
  const bool small = exponent + 1 < token.size() && token[exponent + 1] == '-';
  return !small && token.size() >= 5;
}

// simdjson fails a whole document for one number that it cannot hold. Puts 1e308, which no field
// takes, in the place of such numbers; every one has at least the five characters of it.
void ReplaceHugeNumbers(std::string* text) {
  bool in_string = false;
  for (size_t at = 0; at < text->size(); ++at) {
    const char c = (*text)[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (!IsDigit(c) && c != '-') continue;
    size_t end = at;
    while (end < text->size() && IsNumberPart((*text)[end])) ++end;
    const std::string_view token = std::string_view(*text).substr(at, end - at);
    if (IsJsonNumber(token) && MayOverflow(token)) {
      const bool negative = c == '-';
      std::string replacement = negative ? "-1e308" : "1e308";
      replacement.resize(token.size(), ' ');
      text->replace(at, token.size(), replacement);
    }
    at = end - 1;
  }
}

// Levels of lists and objects, empty ones too.
size_t DepthOf(const dom::element& element) {
  dom::array array;
  dom::object object;
  size_t deepest = 0;
  if (!element.get(array)) {
    for (const dom::element item : array) deepest = std::max(deepest, DepthOf(item));
  } else if (!element.get(object)) {
    for (const dom::key_value_pair field : object) {
      deepest = std::max(deepest, DepthOf(field.value));
    }
  } else {
    return 0;
  }
  return deepest + 1;
}

// The library refuses `max_depth` levels and more, but counts an empty list or object as none.
simdjson::error_code ParseWithin(size_t max_depth, dom::parser* parser, std::string* text,
                                 dom::element* root) {
  simdjson::error_code error = parser->allocate(text->size(), max_depth);
  if (!error) error = parser->parse(text->data(), text->size(), false).get(*root);
  if (error == simdjson::NUMBER_ERROR) {
    ReplaceHugeNumbers(text);
    error = parser->parse(text->data(), text->size(), false).get(*root);
  }
  return error;
}

std::string_view Explain(simdjson::error_code error) {
  switch (error) {
    case simdjson::DEPTH_ERROR:
      return "nested more than 64 deep";
    case simdjson::UTF8_ERROR:
      return "not valid UTF-8";
    case simdjson::STRING_ERROR:
      return "a string holds a wrong escape or a lone surrogate";
    case simdjson::UNESCAPED_CHARS:
      return "a string holds a control character that is not escaped";
    case simdjson::UNCLOSED_STRING:
      return "a string is not closed";
    case simdjson::NUMBER_ERROR:
      return "a number is malformed";
    case simdjson::EMPTY:
      return "nothing but white space";
    case simdjson::MEMALLOC:
    case simdjson::CAPACITY:
      return "too large";
    default:
      return "malformed";
  }
}

}  // namespace

std::string_view JsonKindName(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "a boolean";
    case JsonKind::kInteger:
      return "an integer";
    case JsonKind::kNumber:
      return "a number that is no 64-bit integer";
    case JsonKind::kString:
      return "a string";
    case JsonKind::kArray:
      return "a list";
    case JsonKind::kObject:
      return "an object";
  }
  return "a value";
}

JsonKind JsonValue::kind() const {
  switch (ToElement(element_).type()) {
    case dom::element_type::ARRAY:
      return JsonKind::kArray;
    case dom::element_type::OBJECT:
      return JsonKind::kObject;
    case dom::element_type::INT64:
      return JsonKind::kInteger;
    case dom::element_type::UINT64:
    case dom::element_type::DOUBLE:
      return JsonKind::kNumber;
    case dom::element_type::STRING:
      return JsonKind::kString;
    case dom::element_type::BOOL:
      return JsonKind::kBool;
    case dom::element_type::NULL_VALUE:
      break;
  }
  return JsonKind::kNull;
}

bool JsonValue::boolean() const {
  bool value = false;
  const auto error = ToElement(element_).get(value);
  PERGOLA_DCHECK(!error);
  return !error && value;
}

int64_t JsonValue::integer() const {
  int64_t value = 0;
  const auto error = ToElement(element_).get(value);
  PERGOLA_DCHECK(!error);
  return error ? 0 : value;
}

double JsonValue::number() const {
  double value = 0;
  const auto error = ToElement(element_).get(value);
  // A number that no 64-bit type holds.
  return error ? std::numeric_limits<double>::infinity() : value;
}

std::string_view JsonValue::string() const {
  std::string_view value;
  const auto error = ToElement(element_).get(value);
  PERGOLA_DCHECK(!error);
  return error ? std::string_view() : value;
}

size_t JsonValue::size() const {
  dom::array array;
  if (ToElement(element_).get(array)) return 0;
  constexpr size_t kSaturated = 0xFFFFFF;  // the tape keeps 24 bits of the count
  const size_t size = array.size();
  if (size < kSaturated) return size;
  size_t counted = 0;
  for ([[maybe_unused]] const dom::element item : array) ++counted;
  return counted;
}

void JsonValue::EachItem(const std::function<bool(size_t, JsonValue)>& visit) const {
  dom::array array;
  if (ToElement(element_).get(array)) return;
  size_t index = 0;
  for (const dom::element item : array) {
    JsonValue value;
    FromElement(item, value.element_);
    if (!visit(index++, value)) return;
  }
}

void JsonValue::EachField(const std::function<bool(std::string_view, JsonValue)>& visit) const {
  dom::object object;
  if (ToElement(element_).get(object)) return;
  for (const dom::key_value_pair field : object) {
    JsonValue value;
    FromElement(field.value, value.element_);
    if (!visit(field.key, value)) return;
  }
}

struct JsonDocument::State {
  dom::parser parser;
};

JsonDocument::JsonDocument() : state_(std::make_unique<State>()) {}
JsonDocument::~JsonDocument() = default;

Result<std::unique_ptr<JsonDocument>> JsonDocument::Parse(std::string text) {
  if (text.empty()) return InvalidArgumentError("the body is empty; it must be a JSON object");
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  std::unique_ptr<JsonDocument> document(new JsonDocument());
  dom::parser* parser = &document->state_->parser;
  dom::element root;
  simdjson::error_code error = ParseWithin(kMaxDepth, parser, &text, &root);
  if (error == simdjson::DEPTH_ERROR) {  // rare: allowed if the innermost level is not empty
    error = ParseWithin(kMaxDepth + 1, parser, &text, &root);
    if (!error && DepthOf(root) > kMaxDepth) error = simdjson::DEPTH_ERROR;
  }
  if (error) {
    return InvalidArgumentError("the body is not valid JSON: " + std::string(Explain(error)));
  }
  FromElement(root, document->root_.element_);
  return document;
}

}  // namespace pergola::gateway
