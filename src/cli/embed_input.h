// The texts that `pergola embed` is given: arguments, lines, or JSON lines, one record at a time,
// in constant memory.
//
//   PERGOLA_ASSIGN_OR_RETURN(std::unique_ptr<EmbedInput> input, OpenEmbedInput(files, options));
//   InputRecord record;
//   for (;;) {
//     PERGOLA_ASSIGN_OR_RETURN(const bool more, input->Next(&record));
//     if (!more) break;
//     ...
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola::cli {

struct InputRecord {
  int64_t index = 0;  // counts records over all files, from 0: bad ones too, blank JSON lines not
  std::string where;  // "file.jsonl:17", "stdin:17", "text 3"
  std::string text;   // UTF-8
  Status status;      // why the record is bad; OK: `text` is usable
};

// Thread-confined, but for Stop.
class EmbedInput {
 public:
  virtual ~EmbedInput() = default;
  // False at the end. An error is of the file (cannot be read), never of a record.
  virtual Result<bool> Next(InputRecord* record) = 0;
  // From any thread: a Next that waits for a slow pipe or terminal returns CANCELLED soon.
  virtual void Stop() = 0;
  // Input read so far, in bytes.
  virtual int64_t read_bytes() const = 0;
  // Size of all input, -1 if not known (a pipe).
  virtual int64_t total_bytes() const = 0;
};

struct EmbedInputOptions {
  // kAuto: JSON lines for files named .jsonl or .ndjson, and everywhere if `field` is given.
  enum class Format { kAuto, kLines, kJsonLines };
  Format format = Format::kAuto;
  std::string field;  // member of a JSON line that holds the text; empty: "text"
  // A longer line is a bad record; what is over is not kept in memory.
  int64_t max_line_bytes = int64_t{16} << 20;
};

// Reads the files one after the other; "-" is stdin. A plain line is a text without its "\n" or
// "\r\n"; an empty one is the empty text. A JSON line is an object with a string in `field`, or a
// string. A UTF-8 byte order mark at the beginning of a file is dropped. NOT_FOUND: a file cannot
// be opened (all are tried before the first is read).
Result<std::unique_ptr<EmbedInput>> OpenEmbedInput(const std::vector<std::string>& files,
                                                   const EmbedInputOptions& options);

// Texts given on the command line.
std::unique_ptr<EmbedInput> MakeArgumentInput(std::vector<std::string> texts);

}  // namespace pergola::cli
