#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/embed_engine.h"
#include "cli/embed_run.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/status_exit.h"
#include "hub/hub_config.h"

namespace pergola::cli {
namespace {

struct EmbedFlags {
  std::string model = "all-MiniLM-L6-v2";
  std::vector<std::string> texts;
  std::vector<std::string> inputs;
  std::string input_format = "auto";
  EmbedInputOptions input;
  std::string output = "-";
  std::string format = "jsonl";
  std::string on_error = "fail";
  std::string prompt;
  bool has_prompt = false;
  bool normalize = true;
  bool has_normalize = false;
  bool truncate = true;
  bool resume = false;
  bool offline = false;
  int64_t batch_tokens = 4096;
  EngineEmbedderOptions engine;
};

// Everything that decides what a row looks like and which text it belongs to.
std::string Settings(const EmbedFlags& flags, const std::string& model_id) {
  const EmbedOptions& embed = flags.engine.embed;
  std::string settings = "model " + model_id + ", format " + flags.format + ", input " +
                         flags.input_format + ", field '" + flags.input.field + "'";
  settings += ", prompt name '" + embed.prompt_name + "'";
  if (embed.prompt) settings += ", prompt '" + *embed.prompt + "'";
  settings += ", weights " + flags.engine.engine.weights;
  settings += ", dimensions " + std::to_string(embed.dimensions);
  settings += embed.normalize ? (*embed.normalize ? ", normalized" : ", not normalized") : "";
  if (embed.average_long) return settings + ", long texts averaged";
  return settings + (embed.truncate ? ", truncated" : ", not truncated");
}

Result<std::unique_ptr<EmbedInput>> OpenInput(const EmbedFlags& flags) {
  if (!flags.texts.empty()) return MakeArgumentInput(flags.texts);
  EmbedInputOptions options = flags.input;
  if (flags.input_format == "lines") options.format = EmbedInputOptions::Format::kLines;
  if (flags.input_format == "jsonl") options.format = EmbedInputOptions::Format::kJsonLines;
  return OpenEmbedInput(flags.inputs.empty() ? std::vector<std::string>{"-"} : flags.inputs,
                        options);
}

// What CLI11 cannot check by itself; empty when all is well.
std::string UsageFault(const EmbedFlags& flags) {
  if (!flags.texts.empty() && !flags.inputs.empty()) return "give texts or --input, not both";
  if (flags.resume && flags.output == "-") return "--resume needs --output FILE";
  if (flags.resume && !flags.texts.empty()) return "--resume is for input from files or stdin";
  for (const std::string& input : flags.inputs) {
    if (input != "-" && input == flags.output) return "--input and --output are the same file";
  }
  return "";
}

int EmbedTexts(EmbedFlags flags) {
  if (const std::string fault = UsageFault(flags); !fault.empty()) {
    std::fprintf(stderr, "pergola: %s\n", fault.c_str());
    return kExitUsage;
  }
  // A reader that has gone (`| head`) is an error of write(), not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  hub::HubConfig config = hub::HubConfig::FromEnvironment();
  config.offline |= flags.offline;
  Result<std::unique_ptr<EmbedInput>> input = OpenInput(flags);
  if (!input.ok()) return Fail(input.status());
  PullDisplay display(flags.model, false);
  const Result<ModelLocation> location = ResolveModel(flags.model, config, display);
  display.Finish();
  if (!location.ok()) return Fail(location.status());
  EmbedOptions& embed = flags.engine.embed;
  if (flags.has_prompt) embed.prompt = flags.prompt;
  if (flags.has_normalize) embed.normalize = flags.normalize;
  embed.truncate = flags.truncate;
  const Result<std::unique_ptr<TextEmbedder>> embedder =
      OpenEngineEmbedder(location->path.string(), flags.engine);
  if (!embedder.ok()) return Fail(embedder.status());
  EmbedRunOptions run;
  run.output = flags.output;
  run.format = *ParseRowFormat(flags.format);
  run.resume = flags.resume;
  run.settings = Settings(flags, location->id);
  run.pipeline.skip_bad = flags.on_error == "skip";
  // Some four bytes of text make a token.
  run.pipeline.chunk_bytes = flags.batch_tokens * 4;
  return RunEmbed(**input, **embedder, run);
}

void AddInputFlags(CLI::App* command, EmbedFlags* flags) {
  command->add_option("text", flags->texts, "Texts; without any, lines of --input or stdin");
  command->add_option("-i,--input", flags->inputs,
                      "Files with one text per line, '-' for stdin (default)");
  command
      ->add_option("--input-format", flags->input_format,
                   "lines, jsonl, or auto: jsonl for *.jsonl and with --field")
      ->check(CLI::IsMember({"auto", "lines", "jsonl"}))
      ->capture_default_str();
  command->add_option("--field", flags->input.field, "Member of a JSON line with the text [text]");
  command->add_option("--on-error", flags->on_error, "A bad line ends the run, or is skipped")
      ->check(CLI::IsMember({"fail", "skip"}))
      ->capture_default_str();
}

void AddOutputFlags(CLI::App* command, EmbedFlags* flags) {
  command->add_option("-o,--output", flags->output, "File for the rows, '-' for stdout")
      ->capture_default_str();
  command->add_option("--format", flags->format, "jsonl, npy (NumPy), f32 (raw little-endian)")
      ->check(CLI::IsMember({"jsonl", "npy", "f32"}))
      ->capture_default_str();
  command->add_flag("--resume", flags->resume, "Continue --output where an earlier run stopped");
}

void AddModelFlags(CLI::App* command, EmbedFlags* flags) {
  EmbedOptions& embed = flags->engine.embed;
  command->add_option("-m,--model", flags->model, "Registry name, hub id, folder or .gguf file")
      ->capture_default_str();
  command->add_option("--prompt-name", embed.prompt_name,
                      "A prompt of the model, put before texts");
  command->add_option("--prompt", flags->prompt, "Any text, put before texts");
  command->add_option("--dimensions", embed.dimensions, "The first N values only")
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--normalize,!--no-normalize", flags->normalize,
                    "Rows of length 1 (default: as the model says)");
  command->add_flag("--truncate,!--no-truncate", flags->truncate,
                    "Cut texts that are too long (default), or call them bad");
  command->add_flag("--average-long", embed.average_long,
                    "Embed texts that are too long in parts and average these");
  command->add_option("--threads", flags->engine.engine.num_threads, "Compute threads [all cores]")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--batch-tokens", flags->batch_tokens,
                   "Tokens that are computed and written together, about")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option("--weights", flags->engine.engine.weights,
                   "What matrices are computed in [auto: as they are]")
      ->check(CLI::IsMember({"auto", "as-is", "f32", "f16", "bf16", "int8", "int4"}));
  command->add_flag("--offline", flags->offline, "Do not fetch a missing model");
}

}  // namespace

void AddEmbed(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("embed", "Turn texts into vectors");
  command->footer(
      "  pergola embed 'a cat' 'a dog'\n"
      "  pergola embed < sentences.txt > rows.jsonl\n"
      "  pergola embed -m embeddinggemma-300m --prompt-name query -i q.jsonl --field question "
      "\\\n"
      "      --format npy -o q.npy --resume\n"
      "Row i belongs to text i. Exit code 3: bad lines were skipped (--on-error skip).");
  auto flags = std::make_shared<EmbedFlags>();
  AddInputFlags(command, flags.get());
  AddOutputFlags(command, flags.get());
  AddModelFlags(command, flags.get());
  command->callback([flags, run, command] {
    flags->has_prompt = command->count("--prompt") > 0;
    flags->has_normalize = command->count("--normalize") > 0;
    *run = [flags] { return EmbedTexts(*flags); };
  });
}

}  // namespace pergola::cli
