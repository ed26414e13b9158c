#include "models/registry.h"

#include <array>
#include <string>

#include "models/bert.h"
#include "models/gemma3.h"

namespace pergola::models {
namespace {

struct Architecture {
  std::string_view name;
  Result<std::unique_ptr<Encoder>> (*load)(const ModelConfig&, const formats::TensorSource&,
                                           kernels::Ops&, kernels::LinearOptions);
};

constexpr std::array<Architecture, 4> kArchitectures = {{
    {"bert", BertEncoder::Load},
    {"distilbert", BertEncoder::Load},
    {"mpnet", BertEncoder::Load},
    {"gemma3_text", Gemma3Encoder::Load},
}};

}  // namespace

std::vector<std::string_view> ListArchitectures() {
  std::vector<std::string_view> names;
  for (const Architecture& architecture : kArchitectures) names.push_back(architecture.name);
  return names;
}

Result<std::unique_ptr<Encoder>> LoadEncoder(const ModelConfig& config,
                                             const formats::TensorSource& source, kernels::Ops& ops,
                                             kernels::LinearOptions options) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == config.architecture) {
      return architecture.load(config, source, ops, options);
    }
  }
  return UnimplementedError("architecture '" + config.architecture + "' is not supported");
}

}  // namespace pergola::models
