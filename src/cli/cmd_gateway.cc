#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/gateway_models.h"
#include "cli/serve_flags.h"
#include "cli/serving.h"
#include "cli/status_exit.h"
#include "cli/whole_file.h"
#include "core/process_memory.h"
#include "gateway/replica_set.h"

namespace pergola::cli {
namespace {

struct GatewayFlags {
  ModelFlags model;
  TextFlags text;
  HttpFlags http;
  gateway::ReplicaSetOptions replicas;
  std::vector<std::string> backends;
  int64_t cache_mib = kDefaultCacheMib;
  std::string cache_file;
  int64_t cache_file_mib = kDefaultCacheFileMib;
  int64_t max_promised_mib = 2048;
  double stall_timeout_s = 15;
  double dns_refresh_s = 5;
  int64_t hedge_after_ms = 0;
  std::string hedge = "off";
  std::string backend_ca_file;
  std::string backend_api_key_file;
  double drain_timeout_s = 30;
};

void AddFlags(CLI::App& command, GatewayFlags& flags);

// Of "p95" 0.95, of "off" 0; nullopt for anything else.
std::optional<double> HedgeQuantile(const std::string& text) {
  if (text == "off") return 0;
  double percent = 0;
  const char* const end = text.data() + text.size();
  if (!text.starts_with('p')) return std::nullopt;
  const auto [rest, error] = std::from_chars(text.data() + 1, end, percent);
  if (error != std::errc() || rest != end || !(percent >= 50 && percent <= 99.9)) {
    return std::nullopt;
  }
  return percent / 100;
}

Status ReadBackendCredentials(const GatewayFlags& flags, rpc::RemoteServiceOptions* remote) {
  if (!flags.backend_ca_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(remote->ca_pem, ReadWholeFile(flags.backend_ca_file));
  }
  if (flags.backend_api_key_file.empty()) return OkStatus();
  if (flags.backend_ca_file.empty()) {
    return InvalidArgumentError(
        "--backend-api-key-file needs --backend-ca: the key would cross the network in the clear");
  }
  PERGOLA_ASSIGN_OR_RETURN(remote->api_key, ReadKeyFile(flags.backend_api_key_file));
  return OkStatus();
}

Result<std::unique_ptr<GatewayModels>> OpenGatewayModels(
    SignalWaiter& signals, const GatewayFlags& flags, std::shared_ptr<gateway::Metrics> metrics) {
  const StopWhileLoading stop(signals);
  GatewayModelsOptions options;
  PERGOLA_ASSIGN_OR_RETURN(options.locations, LocateModels(flags.model));
  options.backends = flags.backends;
  options.replicas = flags.replicas;
  options.replicas.stall_timeout = Seconds(flags.stall_timeout_s);
  options.replicas.hedge_after = std::chrono::milliseconds(flags.hedge_after_ms);
  options.replicas.hedge_quantile = HedgeQuantile(flags.hedge).value_or(0);
  options.replicas.max_promised_bytes = flags.max_promised_mib << 20;
  if (!flags.cache_file.empty() && options.locations.size() > 1) {
    return InvalidArgumentError("--cache-file is for one model");
  }
  options.cache = {static_cast<size_t>(flags.cache_mib) << 20, flags.cache_mib > 0,
                   flags.cache_file, flags.cache_file_mib << 20, TellOfCacheFile};
  PERGOLA_RETURN_IF_ERROR(ReadBackendCredentials(flags, &options.remote));
  options.metrics = std::move(metrics);
  return GatewayModels::Open(std::move(options));
}

// The routes as the flags of the moment want them, as soon as a backend has told what it serves.
// Thread-safe.
class GatewayRoutes {
 public:
  GatewayRoutes(const GatewayModels& models, GatewayFlags flags, HttpFront& front)
      : models_(models), front_(front), flags_(std::move(flags)) {}

  // The models are known now, and no backend serves others. INVALID_ARGUMENT: the flags do not fit
  // the models.
  Status Install() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return InstallWith(flags_);
  }
  // Takes other flags; on an error those before stay.
  Status Change(GatewayFlags flags) {
    // Also before the models are known: nobody would hear of it then.
    PERGOLA_RETURN_IF_ERROR(models_.Check(SettingsOf(flags.text)));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (models_.known()) PERGOLA_RETURN_IF_ERROR(InstallWith(flags));
    flags_ = std::move(flags);
    return OkStatus();
  }

 private:
  Status InstallWith(const GatewayFlags& flags) {
    PERGOLA_ASSIGN_OR_RETURN(auto served, OfferModels(models_.Served(), flags.text));
    front_.routes->Install(
        MakeRoutes(flags.http, flags.cache_mib, std::move(served), front_.metrics));
    return OkStatus();
  }

  const GatewayModels& models_;
  HttpFront& front_;
  std::mutex mutex_;  // guards flags_
  GatewayFlags flags_;
};

// Tells of `status` on stderr when it is another than before, and to those who ask for readiness.
void TellNotReady(const Status& status, HttpFront& front, std::string* told) {
  if (std::exchange(*told, status.message()) == status.message()) return;
  std::fprintf(stderr, "not ready: %s\n", status.message().c_str());
  // Addresses and paths are nobody's business outside.
  front.routes->SetReason(status.code() == StatusCode::kUnavailable
                              ? "no server of the model answers"
                              : "the servers do not serve this gateway's models");
}

int RunGateway(const GatewayFlags& flags, const SetAgain& set_again) {
  // Not required() of the parser: that would look before the configuration file is read.
  if (flags.backends.empty()) {
    std::fprintf(stderr, "pergola: --backend is required\n");
    return kExitUsage;
  }
  ReturnLargeBlocks();
  SignalWaiter signals;  // before any thread
  HttpFront front = MakeFront("pergola-gateway", flags.http);
  auto models = OpenGatewayModels(signals, flags, front.metrics);
  if (!models.ok()) return Fail(models.status());
  if (const Status status = (*models)->Check(SettingsOf(flags.text)); !status.ok()) {
    return Fail(status);
  }
  if (const Status status = Listen(flags.http, &front); !status.ok()) return Fail(status);
  GatewayRoutes routes(**models, flags, front);
  std::string told;
  const auto not_ready = [&](const Status& status) { TellNotReady(status, front, &told); };
  auto watch = std::make_unique<BackendWatch>(
      **models, Seconds(flags.dns_refresh_s),
      [&] {
        const Status status = routes.Install();
        if (!status.ok()) return not_ready(status);
        if (!std::exchange(told, "ready").starts_with("ready")) std::fprintf(stderr, "ready\n");
      },
      not_ready);
  const auto reload = [&]() -> Status {
    GatewayFlags fresh;
    CLI::App app;
    AddFlags(app, fresh);
    PERGOLA_RETURN_IF_ERROR(set_again(app));
    return routes.Change(std::move(fresh));
  };
  const int code = RunHttpUntilStopped(signals, *front.server, reload, flags.drain_timeout_s);
  watch.reset();
  front.server.reset();
  return code;
}

void AddBackendFlags(CLI::App& command, GatewayFlags& flags) {
  command
      .add_option("--backend", flags.backends,
                  "Servers that compute, all of the same models: host:port each, or\n"
                  "dns:///name:port for one at each address of the name")
      ->delimiter(',');
  AddSecondsFlag(command, "--stall-timeout", flags.stall_timeout_s, 0.1,
                 "Seconds without any answer after which a backend with open work is given up");
  command.add_option("--backend-ca", flags.backend_ca_file,
                     "TLS to the backends: certificates (PEM) that theirs come from");
  command.add_option("--backend-api-key-file", flags.backend_api_key_file,
                     "File with the key that the backends want; needs --backend-ca");
  AddSecondsFlag(command, "--dns-refresh", flags.dns_refresh_s, 0.01,
                 "Seconds after which names of backends are resolved again, and the backends\n"
                 "asked whether they still compute the same");
  command
      .add_option("--hedge-after-ms", flags.hedge_after_ms,
                  "Milliseconds after which a request is also sent to another backend, the first\n"
                  "answer counts (0: never)")
      ->check(CLI::Range(int64_t{0}, int64_t{86'400'000}))
      ->capture_default_str();
  const CLI::Validator quantile(
      [](std::string& text) {
        return HedgeQuantile(text) ? std::string()
                                   : "'" + text + "' is neither off nor p50 to p99.9";
      },
      "");
  command
      .add_option(
          "--hedge", flags.hedge,
          "off, or p95: the same after that percentile of the latencies of late, by size of\n"
          "the request; until it is known --hedge-after-ms counts")
      ->check(quantile)
      ->capture_default_str();
  command
      .add_option("--piece-tokens", flags.replicas.pieces.tokens,
                  "Longer lists are cut into pieces for several backends")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  command
      .add_option("--max-attempts", flags.replicas.max_attempts,
                  "Backends tried for one request, the first included")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
}

void AddFlags(CLI::App& command, GatewayFlags& flags) {
  AddModelFlags(command, flags.model);
  AddTextFlags(command, flags.text);
  AddBackendFlags(command, flags);
  AddHttpFlags(command, flags.http);
  AddCacheFlag(command, flags.cache_mib);
  AddCacheFileFlags(command, flags.cache_file, flags.cache_file_mib);
  AddPromisedFlag(command, flags.max_promised_mib);
  AddDrainFlag(command, flags.drain_timeout_s);
}

}  // namespace

void AddGateway(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("gateway", "Serve over HTTP what servers compute");
  command->footer(
      "Speaks what `pergola serve` speaks. The model is there for its tokenizer, prompts and\n"
      "limits; its weights are not loaded. Flags as for `pergola serve`.\n"
      "Listens at once and is ready (/readyz) as soon as a backend answers.\n"
      "SIGTERM finishes what is in work and exits 0; SIGHUP rereads keys, certificate and\n"
      "configuration.\n"
      "  pergola gateway --model all-MiniLM-L6-v2 --backend 10.0.0.7:42668,10.0.0.8:42668");
  auto flags = std::make_shared<GatewayFlags>();
  AddFlags(*command, *flags);
  CompleteServing(*command, run,
                  [flags](const SetAgain& set_again) { return RunGateway(*flags, set_again); });
}

}  // namespace pergola::cli
