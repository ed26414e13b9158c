#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/embed_input.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/status_exit.h"
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
};

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
  *out = "{\"ids\":[";
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

int Tokenize(const TokenizeFlags& flags) {
  if (flags.inputs.empty() == flags.texts.empty()) {
    std::fputs("pergola: tokenize needs texts or --input, not both\n", stderr);
    return kExitUsage;
  }
  const auto tokenizer = OpenTokenizer(flags);
  if (!tokenizer.ok()) return Fail(tokenizer.status());
  std::unique_ptr<EmbedInput> input;
  if (flags.inputs.empty()) {
    input = MakeArgumentInput(flags.texts);
  } else {
    EmbedInputOptions options;
    options.field = flags.field;
    auto opened = OpenEmbedInput(flags.inputs, options);
    if (!opened.ok()) return Fail(opened.status());
    input = std::move(*opened);
  }
  tokenizers::EncodeOptions options;
  options.add_special_tokens = !flags.no_special_tokens;
  options.with_offsets = flags.offsets;
  tokenizers::Encoding encoding;
  InputRecord record;
  std::string line;
  for (;;) {
    const Result<bool> more = input->Next(&record);
    if (!more.ok()) return Fail(more.status());
    if (!*more) break;
    Status status = record.status;
    if (status.ok()) status = (*tokenizer)->Encode(record.text, options, &encoding);
    if (!status.ok()) return Fail(status.WithContext(record.where));
    AppendLine(encoding, flags.offsets, &line);
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) break;  // Main says why
  }
  return kExitOk;
}

}  // namespace

void AddTokenize(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("tokenize", "Print the token ids of texts");
  command->footer(
      "One JSON line per text: {\"ids\":[...]}; with --offsets also the half-open byte range of "
      "the\n"
      "text that each token stands for. Nothing is truncated. A bad line ends the run.\n\n"
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
  command->add_flag("--no-special-tokens", flags->no_special_tokens,
                    "Leave out what the model adds around a text");
  command->add_flag("--offsets", flags->offsets, "Also print where each token comes from");
  command->add_flag("--offline", flags->offline, "Do not fetch a missing model");
  command->callback([flags, run] { *run = [flags] { return Tokenize(*flags); }; });
}

}  // namespace pergola::cli
