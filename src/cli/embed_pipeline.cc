#include "cli/embed_pipeline.h"

#include <utility>

#include "cli/record_pipeline.h"

namespace pergola::cli {
namespace {

// After Compute, the product holds a row for each record that is OK, in order, and the texts are
// gone.
using Chunk = RecordChunk<EmbeddedTexts>;

// Embeds texts[begin, end). If one cannot be embedded, halves until it is found; its status says
// why.
Status EmbedRange(const TextEmbedder& embedder, std::span<const std::string> texts, size_t begin,
                  std::vector<Status>* statuses, EmbeddedTexts* out) {
  if (texts.empty()) return OkStatus();
  Result<EmbeddedTexts> embedded = embedder.Embed(texts);
  if (embedded.ok()) {
    out->values.insert(out->values.end(), embedded->values.begin(), embedded->values.end());
    out->tokens += embedded->tokens;
    out->truncated += embedded->truncated;
    return OkStatus();
  }
  if (embedded.status().code() != StatusCode::kInvalidArgument) return embedded.status();
  if (texts.size() == 1) {
    (*statuses)[begin] = embedded.status();
    return OkStatus();
  }
  const size_t half = texts.size() / 2;
  PERGOLA_RETURN_IF_ERROR(EmbedRange(embedder, texts.first(half), begin, statuses, out));
  return EmbedRange(embedder, texts.subspan(half), begin + half, statuses, out);
}

void Compute(const TextEmbedder& embedder, Chunk* chunk) {
  std::vector<std::string> texts;
  std::vector<size_t> owners;
  for (size_t i = 0; i < chunk->records.size(); ++i) {
    if (!chunk->records[i].status.ok()) continue;
    texts.push_back(std::move(chunk->records[i].text));
    owners.push_back(i);
  }
  std::vector<Status> statuses(texts.size());
  const Status status = EmbedRange(embedder, texts, 0, &statuses, &chunk->product);
  if (!status.ok()) {
    // None of the chunk is written.
    chunk->error = status;
    chunk->records.clear();
    return;
  }
  for (size_t i = 0; i < owners.size(); ++i) chunk->records[owners[i]].status = statuses[i];
}

// Hands the rows of one chunk to the writer.
Status WriteChunk(const Chunk& chunk, const TextEmbedder& embedder, const EmbedHooks& hooks,
                  bool skip_bad, RowWriter* writer, EmbedTotals* totals) {
  const auto width = static_cast<size_t>(embedder.width());
  size_t row = 0;
  for (const InputRecord& record : chunk.records) {
    if (!record.status.ok()) {
      if (!skip_bad) return record.status.WithContext(record.where);
      if (hooks.on_bad) hooks.on_bad(record);
      ++totals->skipped;
    } else {
      writer->Append(record.index, {chunk.product.values.data() + row * width, width});
      ++row;
      ++totals->rows;
    }
    totals->records = record.index + 1;
  }
  totals->tokens += chunk.product.tokens;
  totals->truncated += chunk.product.truncated;
  totals->input_bytes = chunk.input_bytes;
  return chunk.error;
}

}  // namespace

Status RunEmbedPipeline(EmbedInput& input, const TextEmbedder& embedder, RowWriter& writer,
                        const EmbedPipelineOptions& options, const EmbedHooks& hooks,
                        EmbedTotals* totals) {
  totals->records = options.first_record;
  // Chunks are closed by size, so that they fill a batch and a slow model still shows progress.
  const RecordPipelineOptions pipeline{.workers = options.workers,
                                       .chunk_records = options.chunk_texts,
                                       .chunk_bytes = options.chunk_bytes,
                                       .first_record = options.first_record};
  return RunRecordPipeline<EmbeddedTexts>(
      input, pipeline, [&](Chunk* chunk) { Compute(embedder, chunk); },
      [&](const Chunk& chunk) {
        Status status = WriteChunk(chunk, embedder, hooks, options.skip_bad, &writer, totals);
        const Status flushed = writer.Flush();
        if (status.ok()) status = flushed;
        if (status.ok() && hooks.on_chunk) status = hooks.on_chunk(*totals);
        return status;
      });
}

}  // namespace pergola::cli
