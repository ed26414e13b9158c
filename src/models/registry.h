// The one list of architectures: how each is called in config.json and in GGUF files, who reads its
// configuration, who runs it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/tensor_source.h"
#include "kernels/ops.h"
#include "models/config.h"
#include "models/config_reader.h"
#include "models/encoder.h"
#include "pergola/status.h"

namespace pergola::models {

struct Architecture {
  std::string_view model_type;  // of config.json; empty: there is none, only GGUF files
  std::string_view gguf_name;   // "general.architecture"; empty: llama.cpp does not write it
  Result<ModelConfig> (*read_json)(const JsonObject&);
  Result<ModelConfig> (*read_gguf)(const GgufKeys&);
  Result<std::unique_ptr<Encoder>> (*load)(const ModelConfig&, const formats::TensorSource&,
                                           kernels::Ops&, kernels::LinearOptions);
};

std::span<const Architecture> ListArchitectures();

// "model_type 't5' is not supported; nearest of the supported ones: bert (bert, ...)". `what` names
// the kind of name, `names` are the supported ones.
std::string DescribeUnknownArchitecture(std::string_view what, std::string_view found,
                                        std::span<const std::string_view> names);

// UNIMPLEMENTED for an architecture not in the list; errors of loading name the tensor.
// `source` and `ops` must outlive the encoder.
Result<std::unique_ptr<Encoder>> LoadEncoder(const ModelConfig& config,
                                             const formats::TensorSource& source, kernels::Ops& ops,
                                             kernels::LinearOptions options);

}  // namespace pergola::models
