#include "cli/serve_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "cli/config_file.h"
#include "hub/http_client.h"
#include "service/keep_alive.h"

namespace pergola::cli {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr int64_t kMost = int64_t{1} << 40;

// From `shortest` to what every clock can count. Not CLI::Range: it takes "nan".
CLI::Validator SecondsFrom(double shortest) {
  return CLI::Validator(
      [shortest](std::string& text) {
        constexpr double kLongest = 1e6;
        double seconds = 0;
        const bool right =
            CLI::detail::lexical_cast(text, seconds) && seconds >= shortest && seconds <= kLongest;
        return right ? std::string() : "'" + text + "' is not a number of seconds in range";
      },
      "");
}

void AddListenFlags(CLI::App& command, HttpFlags& flags) {
  gateway::HttpServerOptions& server = flags.server;
  AddHostFlags(command, server.hosts, server.port);
  command.add_option("--unix-socket", server.unix_socket, "Also listen on this socket file");
  command.add_option("--tls-cert", server.tls_cert_file, "Certificate chain (PEM)");
  command.add_option("--tls-key", server.tls_key_file, "Private key (PEM)");
  command.add_option("--network-threads", server.network_threads)->check(CLI::Range(1, 256));
  command.add_option("--max-connections", server.max_connections)->check(CLI::Range(1, 1 << 20));
  command.add_option("--keepalive-timeout", flags.keepalive_timeout_s, "Seconds")
      ->check(SecondsFrom(0))
      ->capture_default_str();
  command
      .add_option("--keepalive-max-requests", server.keepalive_max_requests,
                  "Requests on one connection (0: no limit)")
      ->check(CLI::Range(int64_t{0}, kMost));
  command.add_flag("--access-log", flags.access_log, "A JSON line per request on stderr");
  AddOtlpFlag(command, flags.otlp_endpoint);
}

void AddPolicyFlags(CLI::App& command, HttpFlags& flags) {
  gateway::HttpServerOptions& server = flags.server;
  gateway::RoutesOptions& routes = flags.routes;
  command.add_option(
      "--api-key-file", server.api_key_file,
      "Keys and their limits, one a line; reread on SIGHUP. Without: no keys needed");
  command.add_flag("--open-metrics", server.open_metrics, "/metrics needs no key");
  command.add_flag("--open-docs", server.open_docs, "/docs and /openapi.json need no key");
  command.add_option("--cors-origin", server.cors_origins, "Origins that browsers may call from")
      ->delimiter(',');
  const CLI::Range positive(int64_t{1}, kMost);
  command.add_option("--max-body-bytes", server.max_body_bytes)
      ->check(positive)
      ->capture_default_str();
  command
      .add_option("--max-bodies-bytes", server.body_budget_bytes,
                  "Memory for all request bodies together")
      ->check(positive);
  command.add_option("--max-batch-inputs", routes.max_batch_inputs, "Inputs of one request")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--request-timeout", flags.request_timeout_s, "Seconds until 504")
      ->check(SecondsFrom(0.001))
      ->capture_default_str();
  command.add_flag("--strict-model", routes.strict_model,
                   "Refuse requests that name another model");
  command.add_flag("--allow-any-dimensions", routes.allow_any_dimensions,
                   "Also sizes that the model was not trained to be cut to");
  command.add_flag("--average-long", routes.average_long,
                   "Embed texts that are too long in parts and average these");
}

// Every option may also come from the environment: --max-body-bytes from PERGOLA_MAX_BODY_BYTES.
void NameEnvironment(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& names = option->get_lnames();
    if (names.empty() || names[0] == "help" || names[0] == "config") continue;
    std::string variable = "PERGOLA_";
    for (const char letter : names[0]) {
      variable += letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
    }
    option->envname(variable);
  }
}

}  // namespace

milliseconds Seconds(double seconds) {
  return duration_cast<milliseconds>(std::chrono::duration<double>(seconds));
}

api::ServedModelOptions ServedOptions(const EngineFlags& engine) {
  api::ServedModelOptions options;
  options.model.ops.num_threads = engine.threads;
  if (engine.activations == "f32") options.model.activations = kernels::ActivationPrecision::kF32;
  options.model.weights = *kernels::ParseWeightType(engine.weights);  // checked by the flag
  options.scheduler.batching.step_tokens = engine.step_tokens;
  // PERGOLA_BATCH_LOOKAHEAD=0: strictly first come first served.
  if (const char* lookahead = std::getenv("PERGOLA_BATCH_LOOKAHEAD")) {
    options.scheduler.batching.lookahead = std::max(0L, std::strtol(lookahead, nullptr, 10));
  }
  // PERGOLA_ADAPTIVE_WAIT=0: every batch waits a fixed time for company.
  if (const char* adaptive = std::getenv("PERGOLA_ADAPTIVE_WAIT")) {
    options.scheduler.batching.adaptive_wait = std::string_view(adaptive) != "0";
  }
  options.scheduler.cache_bytes = static_cast<size_t>(engine.cache_mib) << 20;
  options.scheduler.single_flight = engine.cache_mib > 0;
  options.cache_file = engine.cache_file;
  options.cache_file_bytes = engine.cache_file_mib << 20;
  options.tell = TellOfCacheFile;
  options.scheduler.max_queued_tokens = engine.max_queued_tokens;
  options.scheduler.max_promised_bytes = engine.max_promised_mib << 20;
  return options;
}

std::shared_ptr<api::ResidentModels> MakeResidents(const ResidencyFlags& flags) {
  api::ResidentModels::Options options;
  options.budget_bytes = flags.memory_budget_bytes;
  options.keep_alive = *service::ParseKeepAlive(flags.keep_alive);  // checked by the flag
  options.on_demand = flags.load_on_demand;
  options.tell = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  return std::make_shared<api::ResidentModels>(std::move(options));
}

text::TextSettings SettingsOf(const TextFlags& flags) {
  text::TextSettings settings;
  settings.default_prompt_name = flags.default_prompt_name;
  for (const std::string& prompt : flags.prompts) {
    const size_t equals = prompt.find('=');  // there is one, the flag has checked
    settings.prompts.insert_or_assign(prompt.substr(0, equals), prompt.substr(equals + 1));
  }
  if (!flags.pair_instruction.empty()) settings.pair_instruction = flags.pair_instruction;
  return settings;
}

void AddModelFlags(CLI::App& command, ModelFlags& flags) {
  command
      .add_option("-m,--model", flags.models,
                  "Registry name, hub id, directory or .gguf file; may be repeated")
      ->delimiter(',')
      ->capture_default_str();
  const CLI::Validator named_folder(
      [](std::string& text) {
        const size_t equals = text.find('=');
        if (equals == std::string::npos || equals + 1 == text.size()) {
          return "'" + text + "' is not NAME=FOLDER or MODEL:NAME=FOLDER";
        }
        const size_t colon = text.rfind(':', equals);
        const size_t begin = colon == std::string::npos ? 0 : colon + 1;
        const std::string name = text.substr(begin, equals - begin);
        const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
        });
        // "MODEL:latest" is the model itself.
        if (plain && name != "latest" && colon != 0) return std::string();
        return "'" + text + "': an adapter's name has letters, digits, '.', '_' and '-', and is " +
               "not 'latest'";
      },
      "");
  command
      .add_option("--adapter", flags.adapters,
                  "NAME=FOLDER: a LoRA adapter of the model, served beside it as MODEL:NAME;\n"
                  "with several models MODEL:NAME=FOLDER; may be repeated")
      ->delimiter(',')
      ->check(named_folder);
  command.add_flag("--offline", flags.offline, "Fetch nothing: the model must be there");
}

void AddTextFlags(CLI::App& command, TextFlags& flags) {
  const CLI::Validator named(
      [](std::string& text) {
        const size_t equals = text.find('=');
        const bool right = equals != std::string::npos && equals > 0;
        return right ? std::string() : "'" + text + "' is not NAME=TEXT";
      },
      "");
  command.add_option("--default-prompt-name", flags.default_prompt_name,
                     "Prompt put before texts that ask for none");
  command
      .add_option("--named-prompt", flags.prompts,
                  "NAME=TEXT: a prompt beside the models' own, or in place of one; may be repeated")
      ->check(named);
  command.add_option("--pair-instruction", flags.pair_instruction,
                     "What a language model that judges pairs is told");
}

namespace {

void AddEngineFlags(CLI::App& command, EngineFlags& flags) {
  command.add_option("--threads", flags.threads, "Compute threads (0: one per usable core)")
      ->check(CLI::Range(0, 1024));
  command
      .add_option("--activations", flags.activations,
                  "auto, or f32: widen quantised weights (slower, the reference)")
      ->check(CLI::IsMember({"auto", "f32"}));
  command
      .add_option("--weights", flags.weights, "What matrices are computed in (auto: as they are)")
      ->check(CLI::IsMember({"auto", "as-is", "f32", "f16", "bf16", "int8", "int4"}));
  command.add_option("--step-tokens", flags.step_tokens, "Tokens of a batch (0: measured default)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  AddCacheFlag(command, flags.cache_mib);
  AddCacheFileFlags(command, flags.cache_file, flags.cache_file_mib);
  command
      .add_option("--max-queued-tokens", flags.max_queued_tokens,
                  "Beyond, requests are refused (429)")
      ->check(CLI::Range(int64_t{1}, kMost))
      ->capture_default_str();
  AddPromisedFlag(command, flags.max_promised_mib);
}

}  // namespace

void AddComputeFlags(CLI::App& command, ComputeFlags& flags) {
  AddModelFlags(command, flags.model);
  AddTextFlags(command, flags.text);
  AddEngineFlags(command, flags.engine);
  AddDrainFlag(command, flags.drain_timeout_s);
}

void AddResidencyFlags(CLI::App& command, ResidencyFlags& flags) {
  const CLI::Validator duration(
      [](std::string& text) {
        const auto parsed = service::ParseKeepAlive(text);
        return parsed.ok() ? std::string() : parsed.status().message();
      },
      "");
  command
      .add_option("--keep-alive", flags.keep_alive,
                  "How long a model stays in memory after its last request: seconds, or 5m\n"
                  "(negative: for ever); keep_alive of Ollama's clients goes before")
      ->check(duration)
      ->capture_default_str();
  command
      .add_option("--memory-budget", flags.memory_budget_bytes,
                  "Bytes of weights in memory; the model unused for longest makes room for the\n"
                  "next (0: no limit)")
      ->check(CLI::Range(int64_t{0}, kMost))
      ->capture_default_str();
  command.add_flag("--load-on-demand", flags.load_on_demand,
                   "Load a model when it is first asked for; at start it is opened and checked");
}

void AddOtlpFlag(CLI::App& command, std::string& otlp_endpoint) {
  const CLI::Validator http_url(
      [](std::string& text) {
        return hub::UrlOrigin(text).empty() ? "'" + text + "' is no http or https URL"
                                            : std::string();
      },
      "");
  command
      .add_option("--otlp-endpoint", otlp_endpoint,
                  "Collector of traces (OTLP/HTTP), http://host:4318; default: none")
      ->check(http_url);
}

void AddDrainFlag(CLI::App& command, double& drain_timeout_s) {
  AddSecondsFlag(command, "--drain-timeout", drain_timeout_s, 0,
                 "Seconds that a stop waits for requests in work");
}

void AddHostFlags(CLI::App& command, std::vector<std::string>& hosts, int& port) {
  const CLI::Validator not_empty(
      [](std::string& text) { return text.empty() ? std::string("is empty") : std::string(); }, "");
  command.add_option("--host,--bind", hosts, "Addresses to listen on, IPv4 or IPv6")
      ->delimiter(',')
      ->check(not_empty);  // an empty name would listen on all addresses
  command.add_option("-p,--port", port, "Port (0: any free one, printed)")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
}

void AddHttpFlags(CLI::App& command, HttpFlags& flags) {
  AddListenFlags(command, flags);
  AddPolicyFlags(command, flags);
}

void AddCacheFlag(CLI::App& command, int64_t& cache_mib) {
  command
      .add_option("--cache-mib", cache_mib,
                  "Memory for finished rows, and a quarter as much for answers to\n"
                  "requests that come again (0: no cache)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
}

void AddCacheFileFlags(CLI::App& command, std::string& cache_file, int64_t& cache_file_mib) {
  command.add_option("--cache-file", cache_file,
                     "Keep finished rows over restarts in this file (one model)");
  command.add_option("--cache-file-mib", cache_file_mib, "Most that the file may grow to")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
}

void TellOfCacheFile(const std::string& line) {
  std::fprintf(stderr, "cache file %s\n", line.c_str());
}

void AddPromisedFlag(CLI::App& command, int64_t& max_promised_mib) {
  command
      .add_option("--max-promised-mib", max_promised_mib,
                  "Memory for rows promised to requests in work")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
}

void AddSecondsFlag(CLI::App& command, const std::string& names, double& seconds, double shortest,
                    const std::string& help) {
  command.add_option(names, seconds, help)->check(SecondsFrom(shortest))->capture_default_str();
}

void CompleteServing(CLI::App& command, Run* run,
                     std::function<int(const SetAgain& set_again)> serve) {
  auto config = std::make_shared<std::string>();
  command.add_option("--config", *config, "TOML file with these options; reread on SIGHUP")
      ->configurable(false);
  NameEnvironment(command);
  command.preparse_callback([](size_t) {
    const std::string address = DropServiceAddress("PERGOLA_PORT");
    if (address.empty()) return;
    std::fprintf(stderr, "PERGOLA_PORT=%s is a service's address, not a port: ignored\n",
                 address.c_str());
  });
  // When parsed, unlike a plain callback, leaves the environment alone for other commands.
  command.parse_complete_callback([&command, config, run, serve = std::move(serve)] {
    const GivenOptions given = ReadGivenOptions(command);
    if (!config->empty()) ApplyConfigFile(command, *config);
    *run = [serve, given, path = *config] {
      return serve([given, path](CLI::App& app) { return SetOptionsAgain(app, given, path); });
    };
  });
}

}  // namespace pergola::cli
