// The fields of a JSON object that a dialect reads, by name, with one error for the first that is
// wrong.
//
//   Fields fields(root, {"model", "input", "dimensions"});
//   call->model = fields.String("model").value_or("");
//   call->dimensions = fields.Integer("dimensions");
//   if (fields.failure()) return fields.failure();
//
// Rules that hold for every field of every dialect live here: null is as if not given, a name given
// twice is an error, fields that are not named are ignored, a wrong type is an error naming field
// and type.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/failure.h"
#include "gateway/json_reader.h"

namespace pergola::gateway {

// Views the document, which must outlive it. Thread-confined.
class Fields {
 public:
  // `prefix` is put before names in messages: "options." for a nested object.
  Fields(const JsonValue& object, std::initializer_list<std::string_view> names,
         std::string_view prefix = "");

  // nullopt: not given, or null. Only for a name of the constructor's list.
  std::optional<JsonValue> Get(std::string_view name) const;
  bool Has(std::string_view name) const { return Get(name).has_value(); }

  // nullopt: not given, null, or of the wrong type (then failure() is set).
  std::optional<bool> Bool(std::string_view name);
  std::optional<int64_t> Integer(std::string_view name);
  std::optional<std::string> String(std::string_view name);
  // A string that must be one of `allowed`: its place in the list.
  std::optional<size_t> OneOf(std::string_view name,
                              std::initializer_list<std::string_view> allowed);

  // Only the first is kept.
  void Fail(std::string_view name, std::string message);
  void Fail(Failure failure);
  const MaybeFailure& failure() const { return failure_; }

 private:
  std::optional<JsonValue> GetOf(std::string_view name, JsonKind wanted,
                                 std::string_view described);

  std::vector<std::string_view> names_;
  std::vector<std::optional<JsonValue>> values_;
  std::string prefix_;
  MaybeFailure failure_;
};

}  // namespace pergola::gateway
