// What a hub says it has, and which of it is needed.
#include <simdjson.h>

#include <algorithm>

#include "core/ascii.h"
#include "hub/hub_source.h"
#include "hub/remote_path.h"

namespace pergola::hub {
namespace {

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Null when the entry is a folder.
Result<std::optional<RemoteFile>> ParseEntry(const simdjson::dom::element& entry) {
  std::string_view type;
  std::string_view path;
  RemoteFile file;
  if (entry["type"].get(type) || entry["path"].get(path)) {
    return DataLossError("the hub's listing has an entry without type and path");
  }
  if (type != "file") return std::optional<RemoteFile>();
  PERGOLA_RETURN_IF_ERROR(CheckRemotePath(path));
  file.path = path;
  std::string_view git;
  if (entry["size"].get(file.bytes) || file.bytes < 0) {
    return DataLossError("the hub's listing has no size for '" + file.path + "'");
  }
  simdjson::dom::object lfs;
  if (entry["lfs"].get(lfs) == simdjson::SUCCESS) {
    std::string_view oid;
    if (lfs["oid"].get(oid) == simdjson::SUCCESS) {
      if (oid.starts_with("sha256:")) oid.remove_prefix(7);
      if (IsHex(oid, 64)) file.sha256 = oid;
    }
  } else if (entry["oid"].get(git) == simdjson::SUCCESS && IsHex(git, 40)) {
    file.git_sha1 = git;
  }
  if (file.sha256.empty() && file.git_sha1.empty()) {
    return DataLossError("the hub's listing has no checksum for '" + file.path + "'");
  }
  return std::optional<RemoteFile>(std::move(file));
}

// At the root, or in a module folder of sentence-transformers: "1_Pooling/config.json".
bool IsInModelFolder(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return true;
  const bool one_level = path.find('/', slash + 1) == std::string_view::npos;
  return one_level && path.front() >= '0' && path.front() <= '9';
}

bool IsRoot(std::string_view path) { return path.find('/') == std::string_view::npos; }

// Of the root's safetensors files: model.safetensors alone where there is one, else all (shards).
bool IsWanted(const RemoteFile& file, bool has_single) {
  if (!IsInModelFolder(file.path) || file.path.front() == '.') return false;
  const std::string name = LowerCase(file.path);
  if (name.ends_with(".safetensors")) {
    return !has_single || !IsRoot(name) || name == "model.safetensors";
  }
  if (name == "requirements.txt") return false;
  return name.ends_with(".json") || name.ends_with(".txt") || name.ends_with(".model");
}

Result<SourceListing> SelectGguf(const std::vector<RemoteFile>& all, std::string_view variant) {
  std::vector<RemoteFile> fitting;
  std::string names;
  for (const RemoteFile& file : all) {
    const std::string name = LowerCase(file.path);
    if (!name.ends_with(".gguf") || name.find("mmproj") != std::string::npos) continue;
    names += (names.empty() ? "" : ", ") + file.path;
    if (name.find(LowerCase(variant)) != std::string::npos) fitting.push_back(file);
  }
  if (fitting.size() == 1) return SourceListing{fitting, fitting[0].path};
  if (fitting.empty()) {
    return NotFoundError(names.empty()
                             ? "the model has neither safetensors nor GGUF weights"
                             : "no GGUF file of variant '" + std::string(variant) + "': " + names);
  }
  return InvalidArgumentError("several GGUF files fit, name one as MODEL:VARIANT: " + names);
}

}  // namespace

Result<std::vector<RemoteFile>> ParseTree(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::array entries;
  const simdjson::padded_string padded(json);
  if (parser.parse(padded).get(entries)) return DataLossError("the hub's listing is not a list");
  std::vector<RemoteFile> files;
  for (const simdjson::dom::element entry : entries) {
    PERGOLA_ASSIGN_OR_RETURN(std::optional<RemoteFile> file, ParseEntry(entry));
    if (file) files.push_back(std::move(*file));
  }
  return files;
}

Result<SourceListing> SelectFiles(const std::vector<RemoteFile>& all, std::string_view variant) {
  bool has_safetensors = false;
  bool has_single = false;
  for (const RemoteFile& file : all) {
    if (!IsRoot(file.path)) continue;
    has_safetensors |= file.path.ends_with(".safetensors");
    has_single |= file.path == "model.safetensors";
  }
  if (!variant.empty() || !has_safetensors) return SelectGguf(all, variant);
  SourceListing listing;
  for (const RemoteFile& file : all) {
    if (IsWanted(file, has_single)) listing.files.push_back(file);
  }
  return listing;
}

}  // namespace pergola::hub
