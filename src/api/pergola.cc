#include "pergola/pergola.h"

#include <utility>

#include "api/served_model.h"
#include "service/embedding_format.h"

namespace pergola {

struct Engine::Impl {
  std::unique_ptr<api::ServedModel> served;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::Open(const std::string& path, const EngineOptions& options) {
  api::ServedModelOptions served;
  served.model.ops.num_threads = options.num_threads;
  served.model.ops.isa = options.isa;
  if (options.f32_activations) {
    served.model.activations = kernels::ActivationPrecision::kF32;
  }
  served.scheduler.cache_bytes = options.cache_bytes;
  auto impl = std::make_unique<Impl>();
  PERGOLA_ASSIGN_OR_RETURN(impl->served, api::ServedModel::Open(path, path, served));
  return Engine(std::move(impl));
}

Result<Embeddings> Engine::Embed(std::span<const std::string> texts,
                                 const EmbedOptions& options) const {
  const api::ServedModel& served = *impl_->served;
  const int64_t dimensions = options.dimensions == 0 ? width() : options.dimensions;
  if (dimensions < 1 || dimensions > width()) {
    return InvalidArgumentError("dimensions is " + std::to_string(options.dimensions) +
                                ", allowed is 1 to " + std::to_string(width()));
  }
  text::PrepareOptions prepare;
  if (!options.prompt_name.empty()) prepare.prompt_name = options.prompt_name;
  prepare.prompt = options.prompt;
  prepare.truncate = options.truncate;

  service::InferenceRequest request;
  int64_t tokens = 0;
  int64_t truncated = 0;
  for (size_t index = 0; index < texts.size(); ++index) {
    Result<text::PreparedText> prepared = served.text()->Prepare(texts[index], prepare);
    if (!prepared.ok()) {
      return prepared.status().WithContext("text " + std::to_string(index));
    }
    tokens += prepared->sequence.tokens();
    truncated += prepared->truncated ? 1 : 0;
    request.sequences.push_back(std::move(prepared->sequence));
  }
  PERGOLA_ASSIGN_OR_RETURN(const service::InferenceOutput output,
                           served.scheduler().RunBlocking(std::move(request)));
  const bool normalise = options.normalize.value_or(served.info().normalises);
  std::vector<float> values(texts.size() * static_cast<size_t>(dimensions));
  for (size_t index = 0; index < texts.size(); ++index) {
    const std::span<float> out(values.data() + index * static_cast<size_t>(dimensions),
                               static_cast<size_t>(dimensions));
    service::FormatFloats((*output.sequences[index])[OutputKind::kEmbedding].values, normalise,
                          out);
  }
  return Embeddings(dimensions, std::move(values), tokens, truncated);
}

int64_t Engine::width() const { return impl_->served->info().width(OutputKind::kEmbedding); }
int64_t Engine::max_tokens() const { return impl_->served->info().max_tokens; }

const std::map<std::string, std::string, std::less<>>& Engine::prompts() const {
  return impl_->served->text()->config().prompts;
}

std::string Engine::Describe() const {
  const service::ModelInfo& info = impl_->served->info();
  return info.architecture + ", " + info.quantisation + ", " +
         std::to_string(info.width(OutputKind::kEmbedding)) + " values, up to " +
         std::to_string(info.max_tokens) + " tokens, " + info.numeric_class;
}

float Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t index = 0; index < a.size(); ++index) {
    sum += static_cast<double>(a[index]) * static_cast<double>(b[index]);
  }
  return static_cast<float>(sum);
}

}  // namespace pergola
