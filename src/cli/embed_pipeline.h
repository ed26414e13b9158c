// Bulk embedding: reads, computes and writes at the same time, in constant memory, in order.
//
//   reader thread --chunks--> worker threads (TextEmbedder) --rows in order--> the caller's thread:
//   writer
//
// Bounded queues between the stages: what waits is at most a few chunks of a few hundred texts
// each. Knows nothing of the engine, so that it is tested with another embedder.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/embed_input.h"
#include "cli/embed_output.h"
#include "pergola/status.h"

namespace pergola::cli {

struct EmbeddedTexts {
  std::vector<float> values;  // [texts, width], in the order of the texts
  int64_t tokens = 0;
  int64_t truncated = 0;  // texts that were cut to the model's length
};

// Thread-safe: several workers call Embed at once, so that one tokenises while another computes.
class TextEmbedder {
 public:
  virtual ~TextEmbedder() = default;
  virtual int64_t width() const = 0;
  // INVALID_ARGUMENT: one of the texts cannot be embedded; the pipeline finds out which. Any other
  // error ends the run.
  virtual Result<EmbeddedTexts> Embed(std::span<const std::string> texts) const = 0;
};

struct EmbedPipelineOptions {
  int workers = 2;
  size_t chunk_texts = 256;
  int64_t chunk_bytes = 16 << 10;  // a chunk is closed when its texts reach this
  bool skip_bad = false;           // false: the first bad record ends the run
  int64_t first_record = 0;        // records before it were done by an earlier run
};

struct EmbedTotals {
  int64_t records = 0;  // those of an earlier run included
  int64_t rows = 0;     // of this run
  int64_t skipped = 0;  // of this run
  int64_t tokens = 0;
  int64_t truncated = 0;
  int64_t input_bytes = 0;  // read for what has been written
};

// All are called from the caller's thread, in order.
struct EmbedHooks {
  // A record that is skipped (`skip_bad`).
  std::function<void(const InputRecord&)> on_bad;
  // After each chunk has been handed to the writer.
  std::function<Status(const EmbedTotals&)> on_chunk;
};

// Runs to the end of the input or the first error. Rows before an error are in the writer, which is
// flushed but not committed. INVALID_ARGUMENT, with the record's place: a bad record and !skip_bad.
Status RunEmbedPipeline(EmbedInput& input, const TextEmbedder& embedder, RowWriter& writer,
                        const EmbedPipelineOptions& options, const EmbedHooks& hooks,
                        EmbedTotals* totals);

}  // namespace pergola::cli
