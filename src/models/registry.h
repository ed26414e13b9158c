// The one list of architectures.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "formats/tensor_source.h"
#include "kernels/ops.h"
#include "models/config.h"
#include "models/encoder.h"
#include "pergola/status.h"

namespace pergola::models {

// Names of the supported architectures, for messages and `doctor`.
std::vector<std::string_view> ListArchitectures();

// UNIMPLEMENTED for an architecture not in the list; errors of loading name the tensor.
// `source` and `ops` must outlive the encoder.
Result<std::unique_ptr<Encoder>> LoadEncoder(const ModelConfig& config,
                                             const formats::TensorSource& source, kernels::Ops& ops,
                                             kernels::LinearOptions options);

}  // namespace pergola::models
