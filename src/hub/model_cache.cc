#include "hub/model_cache.h"

#include <simdjson.h>

#include <algorithm>

#include "hub/file_sink.h"
#include "hub/remote_path.h"

namespace pergola::hub {
namespace {

namespace fs = std::filesystem;

constexpr char kManifestName[] = "pergola_manifest.json";

// A JSON string literal. Names have passed CheckRemotePath or ParseModelReference: no control
// characters.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string RenderManifest(const CachedModel& model) {
  std::string json = "{\n  \"model\": " + Quoted(model.reference.ToString()) +
                     ",\n  \"source\": " + Quoted(model.source) +
                     ",\n  \"revision\": " + Quoted(model.revision) +
                     ",\n  \"entry\": " + Quoted(model.entry) + ",\n  \"files\": {";
  const char* separator = "\n";
  for (const CachedFile& file : model.files) {
    json += separator;
    json += "    " + Quoted(file.path) + ": {\"bytes\": " + std::to_string(file.bytes) +
            ", \"sha256\": " + Quoted(file.sha256) + "}";
    separator = ",\n";
  }
  return json + "\n  }\n}\n";
}

std::string Text(const simdjson::dom::object& object, const char* key) {
  std::string_view text;
  return object[key].get(text) == simdjson::SUCCESS ? std::string(text) : "";
}

// The manifest in `folder` with its files checked for presence and size.
std::optional<CachedModel> ReadModel(const fs::path& folder) {
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  simdjson::dom::object files;
  simdjson::padded_string json;
  if (simdjson::padded_string::load((folder / kManifestName).string()).get(json) ||
      parser.parse(json).get(root) || root["files"].get(files)) {
    return std::nullopt;
  }
  Result<ModelReference> reference = ParseModelReference(Text(root, "model"));
  if (!reference.ok()) return std::nullopt;
  CachedModel model{
      *reference, folder, Text(root, "entry"), Text(root, "source"), Text(root, "revision"), {}};
  for (const auto& [name, value] : files) {
    CachedFile file{std::string(name), 0, ""};
    simdjson::dom::object facts;
    if (value.get(facts) || facts["bytes"].get(file.bytes) || !CheckRemotePath(name).ok()) {
      return std::nullopt;
    }
    file.sha256 = Text(facts, "sha256");
    std::error_code error;
    const auto found = fs::file_size(folder / file.path, error);
    if (error || static_cast<int64_t>(found) != file.bytes) return std::nullopt;
    model.files.push_back(std::move(file));
  }
  if (!model.entry.empty() && !CheckRemotePath(model.entry).ok()) return std::nullopt;
  return model;
}

std::vector<fs::path> Subfolders(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

int64_t CachedModel::total_bytes() const {
  int64_t total = 0;
  for (const CachedFile& file : files) total += file.bytes;
  return total;
}

fs::path ModelCache::Folder(const ModelReference& reference) const {
  return home_ / "models" / reference.CachePath();
}

fs::path ModelCache::PartialFolder(const ModelReference& reference) const {
  return home_ / "partial" / reference.CachePath();
}

fs::path ModelCache::LockPath(const ModelReference& reference) const {
  return home_ / "locks" / (reference.CachePath() + ".lock");
}

std::optional<CachedModel> ModelCache::Find(const ModelReference& reference) const {
  std::optional<CachedModel> model = ReadModel(Folder(reference));
  if (model && model->reference != reference) return std::nullopt;
  return model;
}

std::vector<CachedModel> ModelCache::List() const {
  std::vector<CachedModel> models;
  for (const fs::path& organisation : Subfolders(home_ / "models")) {
    for (const fs::path& folder : Subfolders(organisation)) {
      std::optional<CachedModel> model = ReadModel(folder);
      // A folder of another name than its model is the old half of a replacement that broke off.
      if (model && Folder(model->reference) == folder) models.push_back(std::move(*model));
    }
  }
  return models;
}

Status ModelCache::Publish(const CachedModel& model) const {
  const fs::path partial = PartialFolder(model.reference);
  const fs::path ready = partial / "files";
  const fs::path target = Folder(model.reference);
  const fs::path manifest = ready / kManifestName;
  std::error_code error;
  fs::remove(manifest, error);
  PERGOLA_ASSIGN_OR_RETURN(FileSink sink, FileSink::Open(manifest));
  PERGOLA_RETURN_IF_ERROR(sink.Write(RenderManifest(model)));
  PERGOLA_RETURN_IF_ERROR(sink.Close());
  fs::create_directories(target.parent_path(), error);
  if (error) return WriteError(target.parent_path(), error.value());
  // A folder cannot be renamed over another: the old one steps aside first. Killed in between, the
  // next pull finds all files verified and only renames.
  const fs::path aside = partial / "replaced";
  fs::remove_all(aside, error);
  if (fs::exists(target, error)) {
    fs::rename(target, aside, error);
    if (error) return WriteError(target, error.value());
  }
  fs::rename(ready, target, error);
  if (error) return WriteError(target, error.value());
  fs::remove_all(partial, error);
  return OkStatus();
}

Status ModelCache::Remove(const ModelReference& reference) const {
  std::error_code error;
  const auto removed = fs::remove_all(Folder(reference), error);
  if (error) return WriteError(Folder(reference), error.value());
  const auto partial = fs::remove_all(PartialFolder(reference), error);
  if (error) return WriteError(PartialFolder(reference), error.value());
  if (removed + partial > 0) return OkStatus();
  return NotFoundError("'" + reference.ToString() + "' is not in '" + home_.string() + "'");
}

}  // namespace pergola::hub
