// Strict JSON in: what a request body must be.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto document, JsonDocument::Parse(std::move(body)));
//   document->root().EachField([](std::string_view key, JsonValue value) { ...; return true; });
//
// Strict: valid UTF-8 without lone surrogates, one value and nothing behind it, at most 64 deep. A
// number that no 64-bit type holds is a number like any other (kind kNumber), so that it does no
// harm in a field that nobody reads. Duplicate keys are seen by whoever reads the fields
// (fields.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "pergola/status.h"

namespace pergola::gateway {

enum class JsonKind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

// "a number", "a list" and so on, for messages.
std::string_view JsonKindName(JsonKind kind);

// A view into a JsonDocument, which must outlive it. Cheap to copy.
class JsonValue {
 public:
  JsonKind kind() const;
  bool is(JsonKind wanted) const { return kind() == wanted; }

  // Each only for its kind. kInteger is what int64 holds and is written without '.' and exponent.
  bool boolean() const;
  int64_t integer() const;
  double number() const;  // kNumber; infinite where no double holds it
  std::string_view string() const;
  // Items of a list, O(1) up to 16 million.
  size_t size() const;

  // Calls visit(index, item) until it returns false; only for kArray.
  void EachItem(const std::function<bool(size_t, JsonValue)>& visit) const;
  // Calls visit(key, value) until it returns false, in the order of the text; only for kObject.
  void EachField(const std::function<bool(std::string_view, JsonValue)>& visit) const;

 private:
  friend class JsonDocument;
  // The library's element, kept as bytes so that its header stays out of ours.
  alignas(8) unsigned char element_[16] = {};
};

// Immutable once parsed.
class JsonDocument {
 public:
  static constexpr size_t kMaxDepth = 64;

  // INVALID_ARGUMENT says what is wrong, without echoing the text. Takes about 25 times the text's
  // size of address space while it lives; little of it is touched for texts of few values.
  static Result<std::unique_ptr<JsonDocument>> Parse(std::string text);

  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root() const { return root_; }

 private:
  JsonDocument();
  struct State;
  std::unique_ptr<State> state_;
  JsonValue root_;
};

}  // namespace pergola::gateway
