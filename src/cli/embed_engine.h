// The engine as the bulk pipeline's embedder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/embed_pipeline.h"
#include "pergola/pergola.h"
#include "pergola/status.h"

namespace pergola::cli {

struct EngineEmbedderOptions {
  EngineOptions engine;
  EmbedOptions embed;
};

// Opens the model at `path`. Fails at once for a prompt name that the model lacks and for
// dimensions it cannot give, rather than at the first text.
Result<std::unique_ptr<TextEmbedder>> OpenEngineEmbedder(const std::string& path,
                                                         const EngineEmbedderOptions& options);

}  // namespace pergola::cli
