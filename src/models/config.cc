#include "models/config.h"

#include <string_view>

#include "models/json_object.h"
#include "models/registry.h"

namespace pergola::models {

Result<ModelConfig> ReadHfConfig(const std::string& path) {
  PERGOLA_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Read(path));
  const auto type = json.String("model_type");
  if (!type) {
    return InvalidArgumentError(path +
                                ": 'model_type' is missing: it says what architecture this is");
  }
  std::vector<std::string_view> names;
  for (const Architecture& architecture : ListArchitectures()) {
    if (architecture.model_type == *type) return architecture.read_json(json);
    if (names.empty() || names.back() != architecture.model_type) {
      names.push_back(architecture.model_type);  // two GGUF names are one model_type
    }
  }
  return UnimplementedError(path + ": " + DescribeUnknownArchitecture("model_type", *type, names));
}

Result<ModelConfig> ReadGgufConfig(const formats::TensorSource& source) {
  const auto name = source.GetString("general.architecture");
  if (!name) return InvalidArgumentError("GGUF key 'general.architecture' is missing");
  std::vector<std::string_view> names;
  for (const Architecture& architecture : ListArchitectures()) {
    if (architecture.gguf_name.empty()) continue;
    if (architecture.gguf_name == *name) return architecture.read_gguf(GgufKeys(source, *name));
    names.push_back(architecture.gguf_name);
  }
  return UnimplementedError(DescribeUnknownArchitecture("GGUF architecture", *name, names));
}

}  // namespace pergola::models
