#include "cli/embed_engine.h"

#include <string_view>
#include <utility>

namespace pergola::cli {
namespace {

// The pipeline names the line; the engine's "text 0: " of a single text would only confuse.
Status WithoutIndex(const Status& status, size_t texts) {
  constexpr std::string_view kPrefix = "text 0: ";
  if (texts != 1 || !status.message().starts_with(kPrefix)) return status;
  return Status(status.code(), status.message().substr(kPrefix.size()));
}

class EngineEmbedder : public TextEmbedder {
 public:
  EngineEmbedder(Engine engine, EmbedOptions options)
      : engine_(std::move(engine)), options_(std::move(options)) {}

  int64_t width() const override {
    return options_.dimensions == 0 ? engine_.width() : options_.dimensions;
  }

  Result<EmbeddedTexts> Embed(std::span<const std::string> texts) const override {
    Result<Embeddings> rows = engine_.Embed(texts, options_);
    if (!rows.ok()) return WithoutIndex(rows.status(), texts.size());
    const std::span<const float> values = rows->values();
    return EmbeddedTexts{{values.begin(), values.end()}, rows->tokens(), rows->truncated()};
  }

 private:
  Engine engine_;
  EmbedOptions options_;
};

std::string PromptNames(const Engine& engine) {
  std::string names;
  for (const auto& [name, text] : engine.prompts()) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "it has none" : "it has " + names;
}

}  // namespace

Result<std::unique_ptr<TextEmbedder>> OpenEngineEmbedder(const std::string& path,
                                                         const EngineEmbedderOptions& options) {
  PERGOLA_ASSIGN_OR_RETURN(Engine engine, Engine::Open(path, options.engine));
  const EmbedOptions& embed = options.embed;
  if (!embed.prompt_name.empty() && !engine.prompts().contains(embed.prompt_name)) {
    return InvalidArgumentError("the model has no prompt '" + embed.prompt_name +
                                "': " + PromptNames(engine));
  }
  if (embed.dimensions < 0 || embed.dimensions > engine.width()) {
    return InvalidArgumentError("--dimensions is " + std::to_string(embed.dimensions) +
                                ", allowed is 1 to " + std::to_string(engine.width()));
  }
  return std::unique_ptr<TextEmbedder>(std::make_unique<EngineEmbedder>(std::move(engine), embed));
}

}  // namespace pergola::cli
