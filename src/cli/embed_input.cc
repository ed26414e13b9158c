#include "cli/embed_input.h"

#include <fcntl.h>
#include <poll.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace pergola::cli {
namespace {

constexpr size_t kBlockBytes = 256 << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr int kStopPollMilliseconds = 50;

// Splits a descriptor's bytes into lines.
class LineReader {
 public:
  LineReader(int descriptor, std::string name, int64_t max_line_bytes)
      : descriptor_(descriptor), name_(std::move(name)), max_line_bytes_(max_line_bytes) {}
  ~LineReader() {
    if (descriptor_ > STDERR_FILENO) close(descriptor_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  const std::string& name() const { return name_; }
  int64_t read_bytes() const { return read_bytes_; }

  // False at the end. `*too_long`: the line's beginning is given, its rest was skipped.
  Result<bool> Next(const std::atomic<bool>& stop, std::string* line, bool* too_long) {
    line->clear();
    *too_long = false;
    bool any = false;
    for (;;) {
      if (begin_ == end_) {
        PERGOLA_RETURN_IF_ERROR(Fill(stop));
        if (end_ == 0) return any;
      }
      any = true;
      const char* from = buffer_.data() + begin_;
      const void* newline = std::memchr(from, '\n', end_ - begin_);
      const size_t count = newline == nullptr
                               ? end_ - begin_
                               : static_cast<size_t>(static_cast<const char*>(newline) - from);
      const size_t room = static_cast<size_t>(max_line_bytes_) - line->size();
      line->append(from, std::min(count, room));
      *too_long |= count > room;
      begin_ += count + (newline == nullptr ? 0 : 1);
      read_bytes_ += static_cast<int64_t>(count) + (newline == nullptr ? 0 : 1);
      if (newline == nullptr) continue;
      if (!line->empty() && line->back() == '\r' && !*too_long) line->pop_back();
      return true;
    }
  }

 private:
  Status Fill(const std::atomic<bool>& stop) {
    buffer_.resize(kBlockBytes);
    begin_ = 0;
    end_ = 0;
    for (;;) {
      pollfd ready{descriptor_, POLLIN, 0};
      const int events = poll(&ready, 1, kStopPollMilliseconds);
      if (stop.load()) return CancelledError("reading was stopped");
      if (events == 0 || (events < 0 && errno == EINTR)) continue;
      const ssize_t got = read(descriptor_, buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return InternalError("cannot read '" + name_ + "': " + std::strerror(errno));
      end_ = static_cast<size_t>(got);
      return OkStatus();
    }
  }

  int descriptor_;
  std::string name_;
  int64_t max_line_bytes_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t read_bytes_ = 0;
};

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

bool HasJsonName(const std::string& name) {
  return name.ends_with(".jsonl") || name.ends_with(".ndjson");
}

class StreamInput : public EmbedInput {
 public:
  StreamInput(std::vector<std::unique_ptr<LineReader>> readers, int64_t total_bytes,
              EmbedInputOptions options)
      : readers_(std::move(readers)), total_bytes_(total_bytes), options_(std::move(options)) {}

  void Stop() override { stop_.store(true); }
  int64_t total_bytes() const override { return total_bytes_; }
  int64_t read_bytes() const override {
    const int64_t current = file_ < readers_.size() ? readers_[file_]->read_bytes() : 0;
    return finished_bytes_ + current;
  }

  Result<bool> Next(InputRecord* record) override {
    bool too_long = false;
    while (file_ < readers_.size()) {
      LineReader& reader = *readers_[file_];
      PERGOLA_ASSIGN_OR_RETURN(const bool more, reader.Next(stop_, &line_, &too_long));
      if (!more) {
        finished_bytes_ += reader.read_bytes();
        readers_[file_++].reset();
        line_number_ = 0;
        continue;
      }
      // Editors on Windows begin a file with it.
      if (++line_number_ == 1 && line_.starts_with(kByteOrderMark)) {
        line_.erase(0, kByteOrderMark.size());
      }
      const bool json = IsJson(reader.name());
      if (json && IsBlank(line_)) continue;
      record->index = next_index_++;
      record->where = reader.name() + ":" + std::to_string(line_number_);
      record->status =
          too_long ? InvalidArgumentError("the line is longer than " +
                                          std::to_string(options_.max_line_bytes) + " bytes")
          : json   ? ParseJson(&record->text)
                   : TakeLine(&record->text);
      if (!record->status.ok()) record->text.clear();
      return true;
    }
    return false;
  }

 private:
  bool IsJson(const std::string& name) const {
    if (options_.format != EmbedInputOptions::Format::kAuto) {
      return options_.format == EmbedInputOptions::Format::kJsonLines;
    }
    return !options_.field.empty() || HasJsonName(name);
  }

  Status TakeLine(std::string* text) {
    if (!simdjson::validate_utf8(line_)) return InvalidArgumentError("the line is not UTF-8");
    text->swap(line_);
    return OkStatus();
  }

  Status ParseJson(std::string* text) {
    const std::string_view field =
        options_.field.empty() ? std::string_view("text") : options_.field;
    simdjson::dom::element root;
    if (const auto error = parser_.parse(line_).get(root)) {
      return InvalidArgumentError(std::string("not JSON: ") + simdjson::error_message(error));
    }
    std::string_view found;
    if (root.get(found) == simdjson::SUCCESS) {
      *text = found;
      return OkStatus();
    }
    simdjson::dom::object object;
    if (root.get(object) != simdjson::SUCCESS) {
      return InvalidArgumentError("neither a JSON object nor a JSON string");
    }
    simdjson::dom::element member;
    if (object.at_key(field).get(member) != simdjson::SUCCESS) {
      return InvalidArgumentError("no member '" + std::string(field) + "'");
    }
    if (member.get(found) != simdjson::SUCCESS) {
      return InvalidArgumentError("member '" + std::string(field) + "' is not a string");
    }
    *text = found;
    return OkStatus();
  }

  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<LineReader>> readers_;
  int64_t total_bytes_;
  EmbedInputOptions options_;
  simdjson::dom::parser parser_;
  std::string line_;
  size_t file_ = 0;
  int64_t finished_bytes_ = 0;
  int64_t line_number_ = 0;
  int64_t next_index_ = 0;
};

class ArgumentInput : public EmbedInput {
 public:
  explicit ArgumentInput(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (const std::string& text : texts_) total_bytes_ += static_cast<int64_t>(text.size());
  }

  Result<bool> Next(InputRecord* record) override {
    if (next_ == texts_.size()) return false;
    record->index = static_cast<int64_t>(next_);
    record->where = "text " + std::to_string(next_ + 1);
    record->text = texts_[next_];
    record->status = simdjson::validate_utf8(record->text)
                         ? OkStatus()
                         : InvalidArgumentError("the text is not UTF-8");
    read_bytes_ += static_cast<int64_t>(record->text.size());
    ++next_;
    return true;
  }
  void Stop() override {}
  int64_t read_bytes() const override { return read_bytes_; }
  int64_t total_bytes() const override { return total_bytes_; }

 private:
  std::vector<std::string> texts_;
  size_t next_ = 0;
  int64_t read_bytes_ = 0;
  int64_t total_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<EmbedInput>> OpenEmbedInput(const std::vector<std::string>& files,
                                                   const EmbedInputOptions& options) {
  std::vector<std::unique_ptr<LineReader>> readers;
  int64_t total_bytes = 0;
  for (const std::string& file : files) {
    const bool is_stdin = file == "-";
    const int descriptor = is_stdin ? STDIN_FILENO : open(file.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (descriptor < 0 || fstat(descriptor, &info) != 0) {
      return NotFoundError("cannot open '" + file + "': " + std::strerror(errno));
    }
    readers.push_back(std::make_unique<LineReader>(descriptor, is_stdin ? "stdin" : file,
                                                   options.max_line_bytes));
    if (S_ISDIR(info.st_mode)) return InvalidArgumentError("'" + file + "' is a folder");
    if (!S_ISREG(info.st_mode)) total_bytes = -1;
    if (total_bytes >= 0) total_bytes += info.st_size;
  }
  return std::unique_ptr<EmbedInput>(
      std::make_unique<StreamInput>(std::move(readers), total_bytes, options));
}

std::unique_ptr<EmbedInput> MakeArgumentInput(std::vector<std::string> texts) {
  return std::make_unique<ArgumentInput>(std::move(texts));
}

}  // namespace pergola::cli
