// One run of `pergola embed` once its input and its embedder stand: output file, resuming,
// messages, progress and exit code.
#pragma once

#include <string>

#include "cli/embed_input.h"
#include "cli/embed_output.h"
#include "cli/embed_pipeline.h"

namespace pergola::cli {

struct EmbedRunOptions {
  std::string output = "-";
  RowFormat format = RowFormat::kJsonl;
  bool resume = false;
  std::string settings;  // model and options in words, compared when resuming
  EmbedPipelineOptions pipeline;
};

// Prints messages to stderr and returns the exit code: kExitOk, kExitBadInput when records were
// skipped, or that of the error. Whatever happens, --resume can continue a file.
int RunEmbed(EmbedInput& input, const TextEmbedder& embedder, const EmbedRunOptions& options);

}  // namespace pergola::cli
