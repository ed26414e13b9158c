// What `--model` means. In this order:
//
//   1. a .gguf file or a model's folder that exists          ./my-model, /models/x.gguf
//   2. a name of the registry                                all-MiniLM-L6-v2, embeddinggemma
//   3. an id of the hub, with ":variant" for one of several  intfloat/e5-small-v2, org/x-GGUF:Q8_0
//
// 2 and 3 come from the cache, without a network if they are there, and are pulled into it if not.
#pragma once

#include <filesystem>
#include <string>

#include "hub/hub_config.h"
#include "hub/pull_observer.h"
#include "pergola/status.h"

namespace pergola::cli {

struct ModelLocation {
  std::filesystem::path path;  // a folder or a .gguf file, to open
  // What the model is called to others: the registry's name, the hub's id, or the folder's or
  // file's own name without ".gguf".
  std::string id;
  // Folder of a LoRA adapter to merge into the model; empty: none.
  std::string adapter = {};
};

// NOT_FOUND: no such file, folder, name or id; FAILED_PRECONDITION: not in the cache, and
// `config.offline` forbids to fetch it; otherwise the errors of hub::Pull.
Result<ModelLocation> ResolveModel(const std::string& model, const hub::HubConfig& config,
                                   hub::PullObserver& observer);

}  // namespace pergola::cli
