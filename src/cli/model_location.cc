#include "cli/model_location.h"

#include <algorithm>

#include "formats/slice.h"
#include "hub/puller.h"
#include "hub/registry.h"

namespace pergola::cli {
namespace {

namespace fs = std::filesystem;

bool IsModelFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error) &&
         (fs::exists(path / "config.json", error) || fs::exists(path / "modules.json", error) ||
          fs::exists(path / "adapter_config.json", error) || formats::IsSlice(path.string()));
}

bool LooksLikePath(const std::string& model) {
  return model.starts_with("/") || model.starts_with("./") || model.starts_with("../") ||
         model.ends_with(".gguf") || model == "." || model == "..";
}

// Called by the name that was given, links not followed: "models/mine" is "mine" wherever it
// points.
ModelLocation Local(const fs::path& path) {
  std::error_code error;
  fs::path named = fs::absolute(path, error).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // "models/mine/"
  return {path, named.extension() == ".gguf" ? named.stem().string() : named.filename().string()};
}

std::string KnownNames() {
  std::string names;
  for (const hub::RegistryModel& model : hub::RegistryModels()) {
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  return names;
}

}  // namespace

Result<ModelLocation> ResolveModel(const std::string& model, const hub::HubConfig& config,
                                   hub::PullObserver& observer) {
  std::error_code error;
  if (IsModelFolder(model) || fs::is_regular_file(model, error)) return Local(model);
  if (LooksLikePath(model)) {
    return NotFoundError(
        fs::is_directory(model, error)
            ? "'" + model + "' holds no model: no config.json, modules.json or adapter_config.json"
            : "there is no model file or folder '" + model + "'");
  }
  const hub::RegistryModel* known = hub::FindRegistryModel(model);
  hub::ModelReference reference;
  if (known != nullptr) {
    reference = known->reference();
  } else {
    Result<hub::ModelReference> parsed = hub::ParseModelReference(model);
    if (!parsed.ok()) {
      return NotFoundError("unknown model '" + model + "': it is no file or folder, no hub id " +
                           "(organisation/name) and not one of " + KnownNames());
    }
    reference = *parsed;
  }
  PERGOLA_ASSIGN_OR_RETURN(const hub::CachedModel cached,
                           hub::Pull(config, reference, {}, observer));
  return ModelLocation{cached.OpenPath(),
                       known != nullptr ? std::string(known->name) : reference.ToString()};
}

}  // namespace pergola::cli
