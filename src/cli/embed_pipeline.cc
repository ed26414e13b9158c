#include "cli/embed_pipeline.h"

#include <optional>
#include <thread>

#include "cli/ordered_queue.h"

namespace pergola::cli {
namespace {

// Records on their way. After Compute, `values` holds a row for each record that is OK, in order,
// and the texts are gone.
struct Chunk {
  int64_t sequence = 0;
  std::vector<InputRecord> records;
  int64_t input_bytes = 0;  // position in the input behind the last record
  Status error;             // of the input, or of the embedder
  EmbeddedTexts embedded;
};

using Queue = OrderedQueue<Chunk>;

// Chunks are closed by size, so that they fill a batch and a slow model still shows progress.
void ReadChunks(EmbedInput& input, const EmbedPipelineOptions& options, Queue* queue) {
  bool more = true;
  for (int64_t sequence = 0; more; ++sequence) {
    Chunk chunk;
    chunk.sequence = sequence;
    int64_t text_bytes = 0;
    while (chunk.records.size() < options.chunk_texts && text_bytes < options.chunk_bytes) {
      InputRecord record;
      const Result<bool> next = input.Next(&record);
      more = next.ok() && *next;
      if (!next.ok()) chunk.error = next.status();
      if (!more) break;
      if (record.index < options.first_record) continue;
      text_bytes += static_cast<int64_t>(record.text.size());
      chunk.records.push_back(std::move(record));
    }
    chunk.input_bytes = input.read_bytes();
    if (!queue->Push(sequence, std::move(chunk))) return;
  }
  queue->Close();
}

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
  const Status status = EmbedRange(embedder, texts, 0, &statuses, &chunk->embedded);
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
      writer->Append(record.index, {chunk.embedded.values.data() + row * width, width});
      ++row;
      ++totals->rows;
    }
    totals->records = record.index + 1;
  }
  totals->tokens += chunk.embedded.tokens;
  totals->truncated += chunk.embedded.truncated;
  totals->input_bytes = chunk.input_bytes;
  return chunk.error;
}

}  // namespace

Status RunEmbedPipeline(EmbedInput& input, const TextEmbedder& embedder, RowWriter& writer,
                        const EmbedPipelineOptions& options, const EmbedHooks& hooks,
                        EmbedTotals* totals) {
  totals->records = options.first_record;
  Queue read(options.workers + 2);
  Queue computed(options.workers + 2);
  std::thread reader([&] { ReadChunks(input, options, &read); });
  std::vector<std::thread> workers;
  for (int i = 0; i < options.workers; ++i) {
    workers.emplace_back([&] {
      while (std::optional<Chunk> chunk = read.Pop()) {
        Compute(embedder, &*chunk);
        const int64_t sequence = chunk->sequence;
        if (!computed.Push(sequence, std::move(*chunk))) return;
      }
    });
  }
  std::thread closer([&] {
    for (std::thread& worker : workers) worker.join();
    computed.Close();
  });
  Status status;
  while (std::optional<Chunk> chunk = computed.Pop()) {
    status = WriteChunk(*chunk, embedder, hooks, options.skip_bad, &writer, totals);
    const Status flushed = writer.Flush();
    if (status.ok()) status = flushed;
    if (status.ok() && hooks.on_chunk) status = hooks.on_chunk(*totals);
    if (!status.ok()) break;
  }
  input.Stop();
  read.Cancel();
  computed.Cancel();
  reader.join();
  closer.join();
  return status;
}

}  // namespace pergola::cli
