// Bulk work on the records of an input: reads, works and consumes at the same time, in constant
// memory, in order.
//
//   reader thread --chunks--> worker threads (work) --chunks in order--> the caller's thread:
//   consume
//
//   RunRecordPipeline<std::string>(input, {.workers = 4},
//                                  [](RecordChunk<std::string>* chunk) { ... },
//                                  [](RecordChunk<std::string>& chunk) -> Status { ... });
//
// Bounded queues between the stages: what waits is at most a few chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cli/embed_input.h"
#include "cli/ordered_queue.h"
#include "pergola/status.h"

namespace pergola::cli {

// Some records on their way, and what the workers made of them.
template <typename Product>
struct RecordChunk {
  int64_t sequence = 0;
  std::vector<InputRecord> records;
  int64_t input_bytes = 0;  // position in the input behind the last record
  Status error;             // of the input, or of a worker: the consumer returns it
  Product product{};
};

// A chunk is closed when it has so many records, or texts of so many bytes.
struct RecordPipelineOptions {
  int workers = 2;
  size_t chunk_records = 256;
  int64_t chunk_bytes = 16 << 10;
  int64_t first_record = 0;  // records before it are left out
};

template <typename Product>
void ReadRecordChunks(EmbedInput& input, const RecordPipelineOptions& options,
                      OrderedQueue<RecordChunk<Product>>* queue) {
  bool more = true;
  for (int64_t sequence = 0; more; ++sequence) {
    RecordChunk<Product> chunk;
    chunk.sequence = sequence;
    int64_t text_bytes = 0;
    while (chunk.records.size() < options.chunk_records && text_bytes < options.chunk_bytes) {
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

// `work` is called by several threads at once, `consume` by the caller's alone and in the order of
// the input. Runs to the end of the input or the first error of `consume`, which it returns; a
// reader that waits is stopped then.
template <typename Product, typename Work, typename Consume>
Status RunRecordPipeline(EmbedInput& input, const RecordPipelineOptions& options, const Work& work,
                         const Consume& consume) {
  using Queue = OrderedQueue<RecordChunk<Product>>;
  Queue read(options.workers + 2);
  Queue done(options.workers + 2);
  std::thread reader([&] { ReadRecordChunks<Product>(input, options, &read); });
  std::vector<std::thread> workers;
  for (int i = 0; i < options.workers; ++i) {
    workers.emplace_back([&] {
      while (std::optional<RecordChunk<Product>> chunk = read.Pop()) {
        work(&*chunk);
        const int64_t sequence = chunk->sequence;
        if (!done.Push(sequence, std::move(*chunk))) return;
      }
    });
  }
  std::thread closer([&] {
    for (std::thread& worker : workers) worker.join();
    done.Close();
  });
  Status status;
  while (std::optional<RecordChunk<Product>> chunk = done.Pop()) {
    status = consume(*chunk);
    if (!status.ok()) break;
  }
  input.Stop();
  read.Cancel();
  done.Cancel();
  reader.join();
  closer.join();
  return status;
}

}  // namespace pergola::cli
