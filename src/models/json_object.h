// A JSON object from a checkpoint's configuration file, read by key with std types only.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto config, JsonObject::Read(directory + "/config.json"));
//   PERGOLA_ASSIGN_OR_RETURN(int64_t width, config.RequireInt("hidden_size"));
//
// A key that is null counts as absent. Not a general JSON library: only what configurations need.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pergola/status.h"

namespace pergola::models {

// Immutable, movable, thread-compatible.
class JsonObject {
 public:
  // `name` stands in error messages. INVALID_ARGUMENT when it is no JSON object.
  static Result<JsonObject> Parse(std::string_view json, std::string name);
  // NOT_FOUND when there is no such file; files over 16 MiB are refused.
  static Result<JsonObject> Read(const std::string& path);
  // Of a JSON array of objects (modules.json).
  static Result<std::vector<JsonObject>> ReadArray(const std::string& path);

  JsonObject(JsonObject&&) noexcept;
  JsonObject& operator=(JsonObject&&) noexcept;
  ~JsonObject();

  // nullopt when absent, null, or of another type. An integral float counts as an integer.
  std::optional<int64_t> Int(std::string_view key) const;
  std::optional<double> Number(std::string_view key) const;
  std::optional<bool> Bool(std::string_view key) const;
  std::optional<std::string> String(std::string_view key) const;
  std::optional<std::vector<std::string>> Strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> Ints(std::string_view key) const;
  std::optional<JsonObject> Object(std::string_view key) const;
  // All members that are strings.
  std::map<std::string, std::string, std::less<>> StringMembers() const;
  std::vector<std::string> Keys() const;

  // INVALID_ARGUMENT naming file and key when absent or of another type, or outside [min, max].
  Result<int64_t> RequireInt(std::string_view key, int64_t min, int64_t max) const;

  const std::string& name() const { return name_; }

 private:
  struct Document;
  struct Impl;
  JsonObject(std::unique_ptr<Impl> impl, std::string name);
  std::unique_ptr<Impl> impl_;
  std::string name_;
};

}  // namespace pergola::models
