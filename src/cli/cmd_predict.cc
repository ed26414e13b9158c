#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/embed_input.h"
#include "cli/model_location.h"
#include "cli/predict_output.h"
#include "cli/predict_profile.h"
#include "cli/pull_display.h"
#include "cli/remote_parts.h"
#include "cli/serve_flags.h"
#include "cli/status_exit.h"
#include "cli/verify_split.h"
#include "engine/generator.h"
#include "engine/language_model.h"
#include "hub/hub_config.h"

namespace pergola::cli {
namespace {

struct PredictFlags {
  std::string model = "gemma-3-270m";
  bool offline = false;
  std::vector<std::string> prompts;
  std::vector<std::string> inputs;
  std::string field;
  bool json = false;
  bool profile = false;
  bool no_special_tokens = false;
  bool ignore_end = false;
  std::string activations = "auto";
  int threads = 0;
  int64_t context = 4096;
  SplitFlags split;
  std::string verify;  // the whole model; empty: no comparison
  engine::GenerateOptions generate = {.max_tokens = 0, .top_k = 5, .sampling = {}};
};

// Of a model named `name`, what `split` leaves here.
Result<std::unique_ptr<engine::LanguageModel>> OpenModel(const std::string& name,
                                                         const PredictFlags& flags,
                                                         const SplitFlags& split) {
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  PullDisplay display(name, /*quiet=*/false);
  Result<ModelLocation> location = ResolveModel(name, hub, display);
  display.Finish();
  if (!location.ok()) return location.status();
  engine::LanguageModelOptions options;
  options.ops.num_threads = flags.threads;
  options.max_positions = flags.context;
  if (flags.activations == "f32") options.activations = kernels::ActivationPrecision::kF32;
  options.embeddings = options.head = split.local_embed();
  options.feed_forward = split.local_ffn();
  return engine::LanguageModel::Load(location->path.string(), options);
}

Result<std::unique_ptr<EmbedInput>> OpenPrompts(const PredictFlags& flags) {
  if (flags.inputs.empty()) return MakeArgumentInput(flags.prompts);
  EmbedInputOptions options;
  options.field = flags.field;
  return OpenEmbedInput(flags.inputs, options);
}

// What is wrong with the combination of flags; empty: nothing.
const char* UsageError(const PredictFlags& flags) {
  const SplitFlags& split = flags.split;
  if (flags.inputs.empty() == flags.prompts.empty()) {
    return "predict needs --prompt or --input, not both";
  }
  if (split.attention_only && (split.local_embed() || split.local_ffn())) {
    return "--attention-only needs --grid, or --embed with --ffn or --shards";
  }
  if (!split.grid.empty() && !(split.embed.empty() && split.ffn.empty() && split.shards.empty())) {
    return "--grid stands for --embed, --ffn and --shards: not both";
  }
  if (!flags.verify.empty() && split.local_embed() && split.local_ffn()) {
    return "--verify compares with servers: it needs --grid, --embed, --ffn or --shards";
  }
  return "";
}

// What answers the prompts. Members refer to earlier ones.
struct Predictor {
  std::unique_ptr<engine::LanguageModel> model;
  std::unique_ptr<engine::LanguageModel> whole;  // of --verify
  std::unique_ptr<RemoteParts> remote;
  std::unique_ptr<SplitVerifier> verifier;
  std::unique_ptr<engine::Generator> generator;
};

Result<Predictor> OpenPredictor(const PredictFlags& flags) {
  Predictor predictor;
  PERGOLA_ASSIGN_OR_RETURN(predictor.model, OpenModel(flags.model, flags, flags.split));
  PERGOLA_ASSIGN_OR_RETURN(predictor.remote, RemoteParts::Connect(flags.split, *predictor.model));
  if (!flags.verify.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(predictor.whole, OpenModel(flags.verify, flags, SplitFlags{}));
    PERGOLA_ASSIGN_OR_RETURN(predictor.verifier,
                             SplitVerifier::Open(flags.split, *predictor.model, *predictor.whole));
  }
  predictor.generator =
      std::make_unique<engine::Generator>(*predictor.model, predictor.remote->ports());
  return predictor;
}

// Answers one prompt. Tells by `agreed` whether rows of f32 gave what one piece gives.
Status PredictOne(const PredictFlags& flags, Predictor& predictor, std::string_view text,
                  std::span<const int32_t> ids, bool* agreed) {
  engine::GenerateOptions options = flags.generate;
  options.stop_at_end = !flags.ignore_end;
  predictor.remote->TakeFfnTimes();
  PERGOLA_ASSIGN_OR_RETURN(const engine::Generation generation,
                           predictor.generator->Generate(ids, options));
  const PredictProfile profile =
      ProfileOf(generation, ids.size(), predictor.remote->TakeFfnTimes());
  std::vector<PayloadParity> parities;
  if (predictor.verifier != nullptr) {
    PERGOLA_ASSIGN_OR_RETURN(parities, predictor.verifier->Compare(ids, options));
    *agreed &= parities.front().same_tokens() && parities.front().largest_error == 0;
  }
  const tokenizers::Tokenizer& tokenizer = predictor.model->tokenizer();
  Prediction prediction{text, ids, &generation};
  if (flags.profile) prediction.profile = &profile;
  prediction.parities = parities;
  const std::string out =
      flags.json ? PredictionJson(prediction, tokenizer) : PredictionText(prediction, tokenizer);
  std::fwrite(out.data(), 1, out.size(), stdout);  // Main tells of a failure
  if (flags.profile && !flags.json) std::fputs(ProfileText(profile).c_str(), stderr);
  return OkStatus();
}

int Predict(const PredictFlags& flags) {
  if (const char* error = UsageError(flags); *error != '\0') {
    std::fprintf(stderr, "pergola: %s\n", error);
    return kExitUsage;
  }
  const auto input = OpenPrompts(flags);
  if (!input.ok()) return Fail(input.status());
  auto predictor = OpenPredictor(flags);
  if (!predictor.ok()) return Fail(predictor.status());
  const tokenizers::Tokenizer& tokenizer = predictor->model->tokenizer();
  tokenizers::EncodeOptions encode;
  encode.add_special_tokens = !flags.no_special_tokens;
  tokenizers::Encoding encoding;
  InputRecord record;
  bool agreed = true;
  for (;;) {
    const Result<bool> more = (*input)->Next(&record);
    if (!more.ok()) return Fail(more.status());
    if (!*more || std::ferror(stdout)) break;
    Status status = record.status;
    if (status.ok()) status = tokenizer.Encode(record.text, encode, &encoding);
    if (status.ok()) status = PredictOne(flags, *predictor, record.text, encoding.ids, &agreed);
    if (!status.ok()) return Fail(status.WithContext(record.where));
  }
  if (agreed) return kExitOk;
  return Fail(InternalError("rows of f32 do not give what the model gives in one piece"));
}

void AddSamplingFlags(CLI::App& command, engine::GenerateOptions& options) {
  command.add_option("--top-k", options.top_k, "Candidates of the next token that are shown")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  command.add_option("--max-tokens", options.max_tokens, "Tokens of the continuation")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 22))
      ->capture_default_str();
  engine::SamplingOptions& sampling = options.sampling;
  command
      .add_option("--temperature", sampling.temperature,
                  "0: the best token every time; more: drawn by probability")
      ->check([](const std::string& text) {
        float value = 0;
        const bool right = CLI::detail::lexical_cast(text, value) && value >= 0 && value <= 100;
        return right ? std::string() : "'" + text + "' is not between 0 and 100";
      })
      ->capture_default_str();
  command.add_option("--sample-top-k", sampling.top_k, "Draw among the best so many (0: all)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24));
  command
      .add_option("--top-p", sampling.top_p,
                  "Draw among the fewest that together have this probability")
      ->check([](const std::string& text) {
        float value = 0;
        const bool right = CLI::detail::lexical_cast(text, value) && value > 0 && value <= 1;
        return right ? std::string() : "'" + text + "' is not above 0 and at most 1";
      });
  command.add_option("--seed", sampling.seed, "Of the drawing")->capture_default_str();
}

void AddSplitFlags(CLI::App& command, SplitFlags& split) {
  command.add_option("--embed", split.embed,
                     "Server of the embedding table and the logits, pergola://host:port or "
                     "http://host:port");
  command
      .add_option("--ffn", split.ffn,
                  "Servers of the feed-forward layers; those with the same layers stand in for "
                  "each other")
      ->delimiter(',');
  command
      .add_option("--shards", split.shards,
                  "The same with the layers to use of each, 0-8=URL,9-17=URL; a range may stand "
                  "there several times")
      ->delimiter(',');
  command.add_flag("--attention-only", split.attention_only,
                   "Compute nothing but attention here: --model is an attention or client slice");
  command.add_option("--grid", split.grid, "Router that has all of these, pergola://host:port");
  command.add_option("--ca", split.tls.server_ca,
                     "Authorities (PEM) of servers with TLS, pergolas://host:port");
  command.add_option("--tls-cert", split.tls.cert, "Certificate for servers that want one (PEM)");
  command.add_option("--tls-key", split.tls.key, "Its private key (PEM)");
  command
      .add_option("--api-key-file", split.api_key_file,
                  "File whose first line is the key that servers want")
      ->envname("PERGOLA_API_KEY_FILE");
  AddSecondsFlag(command, "--wait", split.wait_s, 0,
                 "Seconds that a part which no server has is waited for; the text goes on then");
  command.add_option("--payload", split.payload, "Rows on the wire to --ffn: f32, bf16 or i8")
      ->check(CLI::IsMember({"f32", "bf16", "i8"}))
      ->capture_default_str();
}

}  // namespace

void AddPredict(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("predict", "Continue texts with a causal language model");
  command->footer(
      "Prints the likeliest next tokens of each prompt and, with --max-tokens, its continuation.\n"
      "With --json a line per prompt: {\"ids\":[...],\"top\":[{\"token_id\",\"token\",\"logit\","
      "\"prob\"}],\n\"generated\":[...],\"text\":\"...\"}, with --profile \"profile\", with "
      "--verify \"verify\". A bad "
      "line ends the run.\n\n"
      "  pergola predict --prompt 'The capital of France is' --max-tokens 16\n"
      "  pergola predict --input prompts.jsonl --field text --top-k 20 --json");
  auto flags = std::make_shared<PredictFlags>();
  command
      ->add_option("-m,--model", flags->model,
                   "Registry name, hub id, folder or .gguf file of a causal model")
      ->capture_default_str();
  command->add_option("--prompt", flags->prompts, "Text to continue; may be repeated");
  command->add_option("-i,--input", flags->inputs, "File of lines or JSON lines; - is stdin");
  command->add_option("--field", flags->field, "Member of a JSON line that holds the text");
  AddSamplingFlags(*command, flags->generate);
  command->add_flag("--ignore-end", flags->ignore_end, "Go on behind a token that ends a text");
  command->add_flag("--no-special-tokens", flags->no_special_tokens,
                    "Leave out what the model adds around a text");
  command->add_option("--context", flags->context, "Most tokens of prompt and continuation")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 22))
      ->capture_default_str();
  command
      ->add_option("--activations", flags->activations,
                   "auto, or f32: widen quantised weights (slower, the reference)")
      ->check(CLI::IsMember({"auto", "f32"}));
  command->add_option("--threads", flags->threads, "Compute threads (0: one per usable core)")
      ->check(CLI::Range(0, 1024));
  AddSplitFlags(*command, flags->split);
  command->add_option("--verify", flags->verify,
                      "The whole model: compute with it too, and say how far each payload type is "
                      "from it");
  command->add_flag("--json", flags->json, "A JSON line per prompt");
  command->add_flag("--profile", flags->profile,
                    "Say where the time went: on stderr, or with --json in the line");
  command->add_flag("--offline", flags->offline, "Do not fetch a missing model");
  command->callback([flags, run] { *run = [flags] { return Predict(*flags); }; });
}

}  // namespace pergola::cli
