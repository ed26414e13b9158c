// What `pergola embed --resume` knows of an interrupted run: a small JSON file `<output>.resume`
// beside the output, rewritten about once a second and removed when all is done.
//
// The checkpoint ties the output's length to the number of input records it stands for, so that
// nothing is lost or doubled even if lines were skipped; it also names the model and the options,
// since rows of two models in one file would be worthless. Without a checkpoint the output's own
// length decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/embed_output.h"
#include "pergola/status.h"

namespace pergola::cli {

struct EmbedCheckpoint {
  std::string settings;  // model and options in words: must be the same when continued
  RowFileState state;    // of the output
  int64_t skipped = 0;   // records that gave no row
};

std::string CheckpointPath(const std::string& output);

// Replaces the checkpoint of `output` in one step.
Status WriteCheckpoint(const std::string& output, const EmbedCheckpoint& checkpoint);

// nullopt: there is none, or it cannot be read.
std::optional<EmbedCheckpoint> ReadCheckpoint(const std::string& output);

void RemoveCheckpoint(const std::string& output);

// Where to continue `output`; nullopt: there is no output, start afresh.
// INVALID_ARGUMENT: made with other settings, or not a file of such rows.
Result<std::optional<EmbedCheckpoint>> FindResumePoint(const std::string& output, RowFormat format,
                                                       int64_t width, const std::string& settings);

}  // namespace pergola::cli
