#include "cli/evaluated_model.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>

#include "cli/model_location.h"
#include "cli/progress_bar.h"
#include "cli/pull_display.h"
#include "hub/hub_config.h"

namespace pergola::cli {

Result<Engine> OpenForEvaluation(const std::string& model, bool offline,
                                 const std::string& weights) {
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= offline;
  PullDisplay display(model, /*quiet=*/false);
  const Result<ModelLocation> location = ResolveModel(model, hub, display);
  display.Finish();
  if (!location.ok()) return location.status();
  EngineOptions options;
  options.weights = weights;
  options.cache_bytes = 0;
  return Engine::Open(location->path.string(), options);
}

Result<EvaluatedModel> EmbedForEvaluation(const Engine& engine,
                                          const std::vector<std::string>& texts,
                                          const std::string& prompt_name) {
  constexpr size_t kTextsAtOnce = 256;
  EmbedOptions options;
  options.prompt_name = prompt_name;
  options.truncate = true;
  EvaluatedModel evaluated;
  evaluated.description = engine.Describe();
  evaluated.width = engine.width();
  ProgressBar bar(stderr, "embedding", ProgressUnit::kTexts);
  const auto began = std::chrono::steady_clock::now();
  int64_t tokens = 0;
  for (size_t begin = 0; begin < texts.size(); begin += kTextsAtOnce) {
    const size_t count = std::min(kTextsAtOnce, texts.size() - begin);
    Result<Embeddings> rows = engine.Embed(std::span(texts).subspan(begin, count), options);
    if (!rows.ok()) return rows.status();
    const std::span<const float> values = rows->values();
    evaluated.values.insert(evaluated.values.end(), values.begin(), values.end());
    tokens += rows->tokens();
    bar.Update(static_cast<int64_t>(begin + count), static_cast<int64_t>(texts.size()));
  }
  bar.Finish();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  evaluated.tokens_per_second = static_cast<double>(tokens) / std::max(took.count(), 1e-9);
  return evaluated;
}

}  // namespace pergola::cli
