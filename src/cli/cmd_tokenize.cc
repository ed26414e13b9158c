#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/embed_input.h"
#include "cli/model_location.h"
#include "cli/progress_bar.h"
#include "cli/pull_display.h"
#include "cli/record_pipeline.h"
#include "cli/status_exit.h"
#include "core/cpu_features.h"
#include "formats/byte_sink.h"
#include "formats/tensor_source.h"
#include "hub/hub_config.h"
#include "tokenizers/gguf_vocabulary.h"
#include "tokenizers/tokenizer.h"

namespace pergola::cli {
namespace {

struct TokenizeFlags {
  std::string model = "all-MiniLM-L6-v2";
  bool offline = false;
  bool no_special_tokens = false;
  bool offsets = false;
  std::vector<std::string> inputs;
  std::string field;
  std::vector<std::string> texts;
  std::string output = "-";
  std::string format = "jsonl";
  int threads = 0;
};

// Records that one worker takes at a time: some milliseconds of work.
constexpr size_t kChunkRecords = 1024;
constexpr int64_t kChunkBytes = 256 << 10;

// A tokenizer.json itself, or what `--model` names everywhere.
Result<std::unique_ptr<tokenizers::Tokenizer>> OpenTokenizer(const TokenizeFlags& flags) {
  std::filesystem::path path = flags.model;
  std::error_code error;
  if (path.extension() != ".json" || !std::filesystem::is_regular_file(path, error)) {
    hub::HubConfig config = hub::HubConfig::FromEnvironment();
    config.offline |= flags.offline;
    PullDisplay display(flags.model, /*quiet=*/false);
    Result<ModelLocation> location = ResolveModel(flags.model, config, display);
    display.Finish();
    if (!location.ok()) return location.status();
    path = location->path;
  }
  if (path.extension() == ".gguf") {
    PERGOLA_ASSIGN_OR_RETURN(auto source, formats::OpenTensorSource(path.string()));
    return tokenizers::LoadTokenizerGguf(*source);
  }
  if (std::filesystem::is_directory(path, error)) path /= "tokenizer.json";
  return tokenizers::LoadTokenizerJson(path.string());
}

void AppendLine(const tokenizers::Encoding& encoding, bool offsets, std::string* out) {
  *out += "{\"ids\":[";
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    if (i > 0) *out += ',';
    *out += std::to_string(encoding.ids[i]);
  }
  *out += ']';
  if (offsets) {
    *out += ",\"offsets\":[";
    for (size_t i = 0; i < encoding.offsets.size(); ++i) {
      if (i > 0) *out += ',';
      *out += '[' + std::to_string(encoding.offsets[i].begin) + ',' +
              std::to_string(encoding.offsets[i].end) + ']';
    }
    *out += ']';
  }
  *out += "}\n";
}

// u32 number of ids, then the ids as u32, little-endian.
void AppendPacked(const tokenizers::Encoding& encoding, std::string* out) {
  const auto append = [&](uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) *out += static_cast<char>(value >> shift & 0xff);
  };
  append(static_cast<uint32_t>(encoding.ids.size()));
  for (const int32_t id : encoding.ids) append(static_cast<uint32_t>(id));
}

// What a worker makes of a chunk: the bytes to write, up to the first bad record.
struct TokenizedChunk {
  std::string bytes;
  int64_t texts = 0;
};

void TokenizeChunk(const tokenizers::Tokenizer& tokenizer, const TokenizeFlags& flags,
                   RecordChunk<TokenizedChunk>* chunk) {
  tokenizers::EncodeOptions options;
  options.add_special_tokens = !flags.no_special_tokens;
  options.with_offsets = flags.offsets;
  tokenizers::Encoding encoding;
  for (const InputRecord& record : chunk->records) {
    Status status = record.status;
    if (status.ok()) status = tokenizer.Encode(record.text, options, &encoding);
    if (!status.ok()) {
      chunk->error = status.WithContext(record.where);
      break;
    }
    if (flags.format == "u32") {
      AppendPacked(encoding, &chunk->product.bytes);
    } else {
      AppendLine(encoding, flags.offsets, &chunk->product.bytes);
    }
    ++chunk->product.texts;
  }
  chunk->records.clear();
}

Status WriteTokens(const TokenizeFlags& flags, const tokenizers::Tokenizer& tokenizer,
                   EmbedInput& input, const formats::ByteSink& sink) {
  ProgressBar bar(stderr, "tokenize", ProgressUnit::kTexts);
  int64_t texts = 0;
  const Status status = RunRecordPipeline<TokenizedChunk>(
      input,
      {.workers = flags.threads > 0 ? flags.threads : UsableCores(),
       .chunk_records = kChunkRecords,
       .chunk_bytes = kChunkBytes},
      [&](RecordChunk<TokenizedChunk>* chunk) { TokenizeChunk(tokenizer, flags, chunk); },
      [&](const RecordChunk<TokenizedChunk>& chunk) -> Status {
        PERGOLA_RETURN_IF_ERROR(sink(chunk.product.bytes));
        texts += chunk.product.texts;
        const int64_t total = input.total_bytes();
        bar.Update(
            texts, 0,
            total > 0 ? static_cast<double>(chunk.input_bytes) / static_cast<double>(total) : -1);
        return chunk.error;
      });
  bar.Finish();
  return status;
}

Result<std::unique_ptr<EmbedInput>> OpenInput(const TokenizeFlags& flags) {
  if (flags.inputs.empty()) return MakeArgumentInput(flags.texts);
  EmbedInputOptions options;
  options.field = flags.field;
  return OpenEmbedInput(flags.inputs, options);
}

int Tokenize(const TokenizeFlags& flags) {
  if (flags.inputs.empty() == flags.texts.empty()) {
    std::fputs("pergola: tokenize needs texts or --input, not both\n", stderr);
    return kExitUsage;
  }
  if (flags.offsets && flags.format == "u32") {
    std::fputs("pergola: --format u32 has no --offsets\n", stderr);
    return kExitUsage;
  }
  const auto tokenizer = OpenTokenizer(flags);
  if (!tokenizer.ok()) return Fail(tokenizer.status());
  const auto input = OpenInput(flags);
  if (!input.ok()) return Fail(input.status());
  const auto emit = [&](const formats::ByteSink& sink) {
    return WriteTokens(flags, **tokenizer, **input, sink);
  };
  const Status status = flags.output == "-" ? emit([](std::string_view bytes) {
    const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size();
    return whole ? OkStatus() : CancelledError("");  // Main says why
  })
                                            : formats::WriteFileWhole(flags.output, emit);
  if (status.ok() || std::ferror(stdout) != 0) return kExitOk;
  return Fail(status);
}

}  // namespace

void AddTokenize(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("tokenize", "Print the token ids of texts");
  command->footer(
      "One JSON line per text: {\"ids\":[...]}; with --offsets also the half-open byte range of "
      "the\n"
      "text that each token stands for. Nothing is truncated. A bad line ends the run.\n"
      "--format u32: for each text the number of its ids, then the ids, little-endian.\n\n"
      "  pergola tokenize --model all-MiniLM-L6-v2 'hello world'\n"
      "  pergola tokenize --model embeddinggemma --input texts.jsonl --field text --offsets\n"
      "  printf 'one\\ntwo\\n' | pergola tokenize --input -");
  auto flags = std::make_shared<TokenizeFlags>();
  command->add_option("texts", flags->texts, "Texts");
  command
      ->add_option("-m,--model", flags->model,
                   "Registry name, hub id, folder, .gguf file or tokenizer.json")
      ->capture_default_str();
  command->add_option("-i,--input", flags->inputs, "File of lines or JSON lines; - is stdin");
  command->add_option("--field", flags->field, "Member of a JSON line that holds the text");
  command->add_option("-o,--output", flags->output,
                      "File; it appears when it is complete (stdout)");
  command->add_option("--format", flags->format, "jsonl or u32")
      ->check(CLI::IsMember({"jsonl", "u32"}))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Texts tokenised at a time (all cores)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--no-special-tokens", flags->no_special_tokens,
                    "Leave out what the model adds around a text");
  command->add_flag("--offsets", flags->offsets, "Also print where each token comes from");
  command->add_flag("--offline", flags->offline, "Do not fetch a missing model");
  command->callback([flags, run] { *run = [flags] { return Tokenize(*flags); }; });
}

}  // namespace pergola::cli
