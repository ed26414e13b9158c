// The folder of pulled models: PERGOLA_HOME, by default ~/.cache/pergola.
//
//   <home>/models/<organisation>/<name>[@variant]/<files>      a complete model, never changed in
//   place <home>/models/<...>/pergola_manifest.json                  what it is, SHA-256 of every
//   file <home>/partial/<organisation>/<name>[@variant]/files/      verified files of a pull under
//   way <home>/partial/<...>/incoming/                             half-transferred files, kept for
//   resuming <home>/locks/<...>.lock                                    one pull per model at a
//   time
//
// A model appears by one rename, so that who reads never sees half of it and needs no lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hub/model_reference.h"
#include "pergola/status.h"

namespace pergola::hub {

struct CachedFile {
  std::string path;
  int64_t bytes = 0;
  std::string sha256;
};

struct CachedModel {
  ModelReference reference;
  std::filesystem::path folder;
  std::string entry;   // the file to open, "" for the folder
  std::string source;  // "hub" or "packages"
  std::string revision;
  std::vector<CachedFile> files;

  std::filesystem::path OpenPath() const { return entry.empty() ? folder : folder / entry; }
  int64_t total_bytes() const;
};

// Thread-compatible; several processes may share a home.
class ModelCache {
 public:
  explicit ModelCache(std::filesystem::path home) : home_(std::move(home)) {}

  const std::filesystem::path& home() const { return home_; }
  std::filesystem::path Folder(const ModelReference& reference) const;
  std::filesystem::path PartialFolder(const ModelReference& reference) const;
  std::filesystem::path LockPath(const ModelReference& reference) const;

  // nullopt: not there, or not as its manifest says (a file missing or of another size).
  std::optional<CachedModel> Find(const ModelReference& reference) const;
  // All complete models, sorted by name.
  std::vector<CachedModel> List() const;
  // Writes the manifest into the partial folder's files and renames them into place, replacing a
  // model that is there.
  Status Publish(const CachedModel& model) const;
  // Deletes the model and what a broken pull of it left. NOT_FOUND if there was nothing.
  Status Remove(const ModelReference& reference) const;

 private:
  std::filesystem::path home_;
};

}  // namespace pergola::hub
