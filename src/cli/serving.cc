#include "cli/serving.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

#include "cli/pull_display.h"
#include "cli/status_exit.h"
#include "core/json_text.h"
#include "gateway/request_trace.h"
#include "hub/http_session.h"
#include "hub/hub_config.h"

namespace pergola::cli {
namespace {

// Trace, tokens and the milliseconds of each stage that was reached.
std::string StagesJson(const gateway::RequestLog& log) {
  if (log.trace == nullptr) return "";
  const gateway::RequestTrace& trace = *log.trace;
  std::string json = ",\"trace_id\":\"" + service::HexOf(trace.context().trace_id) +
                     "\",\"tokens\":" + std::to_string(trace.tokens());
  for (const gateway::Stage stage : gateway::kStages) {
    const double ms = std::chrono::duration<double, std::milli>(trace.length(stage)).count();
    if (ms == 0) continue;
    char number[48];
    std::snprintf(number, sizeof number, "_ms\":%.3f", ms);
    json += std::string(",\"") + gateway::kStageNames[static_cast<size_t>(stage)] + number;
  }
  return json;
}

// One JSON object a line on stderr; no text of users, no key.
void LogAccess(const gateway::RequestLog& log) {
  const double elapsed_ms = std::chrono::duration<double, std::milli>(log.duration).count();
  std::fprintf(stderr,
               "{\"request_id\":%s,\"peer\":%s,\"method\":%s,\"route\":%s,\"status\":%d,"
               "\"ms\":%.3f,\"received_bytes\":%llu,\"sent_bytes\":%llu,\"api_key\":%d%s}\n",
               JsonString(log.request_id).c_str(), JsonString(log.peer).c_str(),
               JsonString(log.method).c_str(), JsonString(log.route).c_str(), log.status,
               elapsed_ms, static_cast<unsigned long long>(log.received_bytes),
               static_cast<unsigned long long>(log.sent_bytes), log.api_key,
               StagesJson(log).c_str());
}

}  // namespace

StopWhileLoading::StopWhileLoading(SignalWaiter& signals) {
  thread_ = std::thread([this, &signals] {
    while (signals.Wait() == Signal::kReload) {
      if (loaded_) return;
    }
    std::fprintf(stderr, "stopped\n");
    std::_Exit(kExitOk);
  });
}

StopWhileLoading::~StopWhileLoading() {
  loaded_ = true;
  pthread_kill(thread_.native_handle(), SIGHUP);  // to this thread alone: ends its wait
  thread_.join();
}

namespace {

// INVALID_ARGUMENT: there is one of that name.
Status AddLocation(ModelLocation location, std::vector<ModelLocation>* locations) {
  for (const ModelLocation& other : *locations) {
    if (other.id == location.id) {
      return InvalidArgumentError("two models are called '" + other.id + "'");
    }
  }
  locations->push_back(std::move(location));
  return OkStatus();
}

// `adapter`: "NAME=FOLDER", or "MODEL:NAME=FOLDER", as the flag has checked; of one of `bases`.
Result<ModelLocation> LocateAdapter(const std::string& adapter,
                                    std::span<const ModelLocation> bases) {
  const size_t equals = adapter.find('=');
  const std::string names = adapter.substr(0, equals);
  const size_t colon = names.rfind(':');  // an id of the hub may have one, too
  const std::string base = colon == std::string::npos ? "" : names.substr(0, colon);
  for (const ModelLocation& location : bases) {
    if (base.empty() ? bases.size() > 1 : location.id != base) continue;
    return ModelLocation{location.path, base.empty() ? location.id + ":" + names : names,
                         adapter.substr(equals + 1)};
  }
  return InvalidArgumentError(
      base.empty() ? "--adapter " + adapter + ": of which model? Write MODEL:" + adapter
                   : "--adapter " + adapter + ": no --model is called '" + base + "'");
}

}  // namespace

Result<std::vector<ModelLocation>> LocateModels(const ModelFlags& flags) {
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  std::vector<ModelLocation> locations;
  for (const std::string& name : flags.models) {
    PullDisplay display(name, /*quiet=*/false);
    Result<ModelLocation> location = ResolveModel(name, hub, display);
    display.Finish();
    if (!location.ok()) return location.status();
    PERGOLA_RETURN_IF_ERROR(AddLocation(std::move(*location), &locations));
  }
  const std::vector<ModelLocation> bases = locations;
  for (const std::string& adapter : flags.adapters) {
    PERGOLA_ASSIGN_OR_RETURN(ModelLocation location, LocateAdapter(adapter, bases));
    PERGOLA_RETURN_IF_ERROR(AddLocation(std::move(location), &locations));
  }
  return locations;
}

Result<std::vector<std::unique_ptr<api::ServedModel>>> OpenModels(
    SignalWaiter& signals, const ComputeFlags& flags,
    std::shared_ptr<api::ResidentModels> residents) {
  const StopWhileLoading stop(signals);
  api::ServedModelOptions options = ServedOptions(flags.engine);
  options.identify = true;
  options.residents = std::move(residents);
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<ModelLocation> locations, LocateModels(flags.model));
  if (!options.cache_file.empty() && locations.size() > 1) {
    return InvalidArgumentError("--cache-file is for one model");
  }
  std::vector<std::unique_ptr<api::ServedModel>> models;
  for (const ModelLocation& location : locations) {
    options.model.adapter = location.adapter;
    Result<std::unique_ptr<api::ServedModel>> model =
        api::ServedModel::Open(location.id, location.path.string(), options);
    if (!model.ok()) return model.status().WithContext(location.id);
    const service::ModelInfo& info = (*model)->info();
    std::fprintf(stderr, "%s: %s, %s, %lld values, up to %lld tokens, %s\n", info.id.c_str(),
                 info.architecture.c_str(), info.quantisation.c_str(),
                 static_cast<long long>(info.width(OutputKind::kEmbedding)),
                 static_cast<long long>(info.max_tokens), info.numeric_class.c_str());
    models.push_back(std::move(*model));
  }
  return models;
}

void AddSources(const std::vector<std::unique_ptr<api::ServedModel>>& models,
                gateway::Metrics* metrics) {
  for (const auto& model : models) {
    scheduler::Scheduler* scheduler = &model->scheduler();
    const std::string id = model->info().id;
    metrics->AddSource([scheduler, id] {
      std::vector<service::MetricSample> samples = scheduler->Metrics();
      for (service::MetricSample& sample : samples) sample.labels.emplace_back("model", id);
      return samples;
    });
  }
}

std::unique_ptr<gateway::Routes> MakeRoutes(const HttpFlags& flags, int64_t cache_mib,
                                            std::vector<gateway::ServedModel> models,
                                            std::shared_ptr<gateway::Metrics> metrics) {
  gateway::RoutesOptions options = flags.routes;
  options.max_body_bytes = flags.server.max_body_bytes;
  options.open_metrics = flags.server.open_metrics;
  options.open_docs = flags.server.open_docs;
  options.answer_cache_bytes = static_cast<size_t>(cache_mib) << 18;  // a quarter
  options.default_timeout = Seconds(flags.request_timeout_s);
  options.metrics = std::move(metrics);
  options.models = std::move(models);
  return std::make_unique<gateway::Routes>(std::move(options));
}

std::shared_ptr<gateway::SpanExporter> MakeSpanExporter(const std::string& service,
                                                        const std::string& endpoint) {
  hub::HttpOptions options;
  options.connect_timeout = std::chrono::seconds(2);
  options.transfer_timeout = std::chrono::seconds(5);
  return std::make_shared<gateway::SpanExporter>(
      gateway::SpanExporter::Options{service, [endpoint, options](const std::string& json) {
                                       return hub::HttpSession(endpoint, options)
                                           .Post("/v1/traces", "application/json", json)
                                           .status();
                                     }});
}

HttpFront MakeFront(const std::string& service, const HttpFlags& flags) {
  HttpFront front;
  front.metrics = std::make_shared<gateway::Metrics>();
  if (!flags.otlp_endpoint.empty()) front.exporter = MakeSpanExporter(service, flags.otlp_endpoint);
  if (front.exporter != nullptr) {
    front.metrics->AddSource([exporter = front.exporter] { return exporter->Metrics(); });
  }
  front.routes = std::make_shared<gateway::LiveRoutes>(gateway::LiveRoutes::Options{
      front.metrics, {flags.server.open_metrics, flags.server.open_docs}});
  return front;
}

Status Listen(const HttpFlags& flags, HttpFront* front) {
  gateway::HttpServerOptions options = flags.server;
  options.keepalive_timeout = Seconds(flags.keepalive_timeout_s);
  options.request_timeout = Seconds(flags.request_timeout_s);
  options.sample_traces = front->exporter != nullptr;
  options.observer = [counted = front->metrics, exporter = front->exporter,
                      access_log = flags.access_log](const gateway::RequestLog& log) {
    counted->CountRequest(log);
    if (access_log) LogAccess(log);
    if (exporter == nullptr) return;
    exporter->Add(gateway::SpansOf(log, {std::chrono::system_clock::now(), service::Clock::now()}));
  };
  PERGOLA_ASSIGN_OR_RETURN(front->server,
                           gateway::HttpServer::Start(std::move(options), front->routes));
  return OkStatus();
}

int RunUntilStopped(SignalWaiter& signals, const Running& running, double drain_timeout_s) {
  for (const std::string& address : running.addresses) {
    std::fprintf(stderr, "listening on %s\n", address.c_str());
  }
  while (signals.Wait() == Signal::kReload) {
    if (running.reload) running.reload();
  }
  std::fprintf(stderr, "draining\n");
  std::thread([&signals] {
    while (signals.Wait() == Signal::kReload) {
    }
    std::_Exit(kExitFailure);
  }).detach();
  const bool drained = running.drain(Seconds(drain_timeout_s));
  if (!drained) std::fprintf(stderr, "pergola: requests were cut off after the drain timeout\n");
  return drained ? kExitOk : kExitFailure;
}

void TellReloaded(const Status& status, const char* what) {
  if (status.ok()) {
    std::fprintf(stderr, "%s reloaded\n", what);
  } else {
    std::fprintf(stderr, "pergola: %s not reloaded, all stays as it was: %s\n", what,
                 status.message().c_str());
  }
}

int RunHttpUntilStopped(SignalWaiter& signals, gateway::HttpServer& server,
                        const std::function<Status()>& reload, double drain_timeout_s,
                        const std::function<void()>& stopping) {
  Running running;
  running.addresses = server.addresses();
  running.reload = [&] {
    if (server.needs_keys()) TellReloaded(server.ReloadKeys(), "keys");
    if (server.has_tls()) TellReloaded(server.ReloadCertificates(), "certificates");
    TellReloaded(reload(), "configuration");
  };
  running.drain = [&](std::chrono::milliseconds timeout) {
    if (stopping) stopping();
    return server.Drain(timeout);
  };
  return RunUntilStopped(signals, running, drain_timeout_s);
}

}  // namespace pergola::cli
