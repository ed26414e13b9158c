// A scheduler whose model's weights come and go (resident_models.h).
//
//   auto scheduler = std::make_shared<Scheduler>(info, MakeResidentRunner(model, *first), options);
//   auto service = MakeResidentService(scheduler, model);
//   service->Submit(...);    // counts as a use of the model; a batch loads its weights
//
// Queue, cache and metrics are the scheduler's and stay: what the cache answers needs no weights.
#pragma once

#include <memory>

#include "api/resident_models.h"
#include "engine/runner.h"
#include "service/inference_service.h"

namespace pergola::api {

// Runs what `model` has loaded, and loads it if need be. `first`: as it is loaded now, for its
// facts, which do not change.
std::unique_ptr<engine::Runner> MakeResidentRunner(std::shared_ptr<ResidentModel> model,
                                                   const engine::Runner& first);

// Passes everything on to `scheduler` (second owner: the caller) and lets `model` know of it.
std::shared_ptr<service::InferenceService> MakeResidentService(
    std::shared_ptr<service::InferenceService> scheduler, std::shared_ptr<ResidentModel> model);

}  // namespace pergola::api
