#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/serve_flags.h"
#include "cli/serving.h"
#include "cli/status_exit.h"
#include "cli/whole_file.h"
#include "core/process_memory.h"
#include "gateway/auth.h"
#include "gateway/status_pages.h"
#include "server/grpc_server.h"
#include "text/counting_tokenizer.h"

namespace pergola::cli {
namespace {

struct ServerFlags {
  ComputeFlags compute;
  server::GrpcServerOptions grpc;
  std::string status_host = "127.0.0.1";
  int status_port = -1;  // none
  std::string otlp_endpoint;
  std::string tls_cert_file;
  std::string tls_key_file;
  std::string api_key_file;
};

// A call as a span below the gateway's, and its time in the engine below that.
std::vector<gateway::Span> SpansOf(const server::InferLog& log) {
  if (!log.caller.valid() || !log.caller.sampled) return {};
  const auto on_system_clock = [system = std::chrono::system_clock::now(),
                                steady = service::Clock::now()](service::Clock::time_point time) {
    return system - std::chrono::duration_cast<std::chrono::system_clock::duration>(steady - time);
  };
  gateway::Span whole;
  whole.context = service::ChildOf(log.caller);
  whole.parent = log.caller.span_id;
  whole.name = "pergola.v1.EmbeddingService/Infer";
  whole.kind = gateway::SpanKind::kServer;
  whole.begin = on_system_clock(log.begin);
  whole.length = log.length;
  whole.numbers = {{"rpc.grpc.status_code", static_cast<int64_t>(log.code)},
                   {"pergola.sequences", log.sequences},
                   {"pergola.tokens", log.tokens}};
  whole.failed = log.code == StatusCode::kInternal;
  std::vector<gateway::Span> spans = {whole};
  const auto add_part = [&](const char* name, service::Clock::time_point begin,
                            std::chrono::nanoseconds length) {
    if (length == std::chrono::nanoseconds::zero()) return;
    gateway::Span part;
    part.context = service::ChildOf(whole.context);
    part.parent = whole.context.span_id;
    part.name = name;
    part.begin = on_system_clock(begin);
    part.length = length;
    spans.push_back(std::move(part));
  };
  add_part("queue", log.begin, log.queue_time);
  add_part("compute", log.begin + log.queue_time, log.inference_time);
  return spans;
}

using Exporter = std::shared_ptr<gateway::SpanExporter>;

// Lets the tokenizers of `models` count their calls; how to tell of it.
std::vector<gateway::Metrics::Source> CountTokenizers(std::vector<server::ServedModel>* models) {
  std::vector<gateway::Metrics::Source> sources;
  for (server::ServedModel& model : *models) {
    const text::CountedText counted = text::CountTokenizerCalls(*model.text);
    model.text = counted.text;
    sources.push_back([calls = counted.calls, id = model.info.id] {
      return std::vector<service::MetricSample>{{"pergola_tokenizer_calls_total",
                                                 "Texts tokenised here: none of a gateway's.",
                                                 service::MetricKind::kCounter,
                                                 {{"model", id}},
                                                 static_cast<double>(calls->load()),
                                                 {},
                                                 {}}};
    });
  }
  return sources;
}

// /healthz, /readyz and /metrics, where --status-port asks for them.
Result<std::unique_ptr<gateway::HttpServer>> StartStatusPages(
    const ServerFlags& flags, const std::vector<std::unique_ptr<api::ServedModel>>& models,
    const server::GrpcServer& server, std::vector<gateway::Metrics::Source> more) {
  if (flags.status_port < 0) return std::unique_ptr<gateway::HttpServer>();
  auto metrics = std::make_shared<gateway::Metrics>();
  AddSources(models, metrics.get());
  metrics->AddSource([&server] { return server.Metrics(); });
  for (gateway::Metrics::Source& source : more) metrics->AddSource(std::move(source));
  gateway::HttpServerOptions options;
  options.hosts = {flags.status_host};
  options.port = flags.status_port;
  return gateway::HttpServer::Start(
      std::move(options), std::make_shared<gateway::StatusPages>(
                              std::move(metrics), [&server] { return server.serving(); }));
}

// Certificate and keys from their files; the options ask `*keys`, which must outlive the server.
Status ReadCredentials(const ServerFlags& flags, server::GrpcServerOptions* options,
                       std::unique_ptr<gateway::ApiKeys>* keys) {
  if (!flags.tls_cert_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(options->tls_cert_pem, ReadWholeFile(flags.tls_cert_file));
  }
  if (!flags.tls_key_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(options->tls_key_pem, ReadWholeFile(flags.tls_key_file));
  }
  if (flags.api_key_file.empty()) return OkStatus();
  PERGOLA_ASSIGN_OR_RETURN(*keys, gateway::ApiKeys::Load(flags.api_key_file));
  options->authorise = [found = keys->get()](std::string_view authorization) {
    return found->Find(authorization).number >= 0;
  };
  return OkStatus();
}

Status RenewTls(const ServerFlags& flags, server::GrpcServer& server) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string cert, ReadWholeFile(flags.tls_cert_file));
  PERGOLA_ASSIGN_OR_RETURN(const std::string key, ReadWholeFile(flags.tls_key_file));
  return server.RenewTls(cert, key);
}

int RunServer(const ServerFlags& flags) {
  ReturnLargeBlocks();
  SignalWaiter signals;  // before any thread
  auto models = OpenModels(signals, flags.compute);
  if (!models.ok()) return Fail(models.status());
  auto served = OfferModels(Offered<server::ServedModel>(*models), flags.compute.text);
  if (!served.ok()) return Fail(served.status());
  std::vector<gateway::Metrics::Source> sources = CountTokenizers(&*served);
  std::unique_ptr<gateway::ApiKeys> keys;
  server::GrpcServerOptions options = flags.grpc;
  if (const Status status = ReadCredentials(flags, &options, &keys); !status.ok()) {
    return Fail(status);
  }
  Exporter exporter;
  if (!flags.otlp_endpoint.empty()) {
    exporter = MakeSpanExporter("pergola-server", flags.otlp_endpoint);
    sources.push_back([exporter] { return exporter->Metrics(); });
    options.observer = [exporter](const server::InferLog& log) { exporter->Add(SpansOf(log)); };
  }
  auto server = server::GrpcServer::Start(std::move(options), std::move(*served));
  if (!server.ok()) return Fail(server.status());
  auto status_pages = StartStatusPages(flags, *models, **server, std::move(sources));
  if (!status_pages.ok()) return Fail(status_pages.status());
  if (*status_pages != nullptr) {
    std::fprintf(stderr, "status on %s\n", (*status_pages)->addresses()[0].c_str());
  }
  Running running;
  for (const std::string& address : (*server)->addresses()) {
    running.addresses.push_back("grpc://" + address);
  }
  running.reload = [&] {
    if (keys != nullptr) TellReloaded(keys->Reload(), "keys");
    if (!flags.tls_cert_file.empty()) TellReloaded(RenewTls(flags, **server), "certificates");
  };
  running.drain = [&](std::chrono::milliseconds timeout) { return (*server)->Drain(timeout); };
  const int code = RunUntilStopped(signals, running, flags.compute.drain_timeout_s);
  for (const auto& model : *models) model->scheduler().StopAccepting();
  status_pages->reset();
  server->reset();
  return code;
}

}  // namespace

void AddServer(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("server", "Compute for gateways, over gRPC");
  command->footer(
      "Answers proto/pergola/v1/embedding.proto and the gRPC services of\n"
      "text-embeddings-inference, with health (grpc.health.v1) and reflection. Without --tls-cert\n"
      "and --api-key-file it is for a network that only gateways reach. Flags as for `pergola "
      "serve`.\n"
      "SIGTERM finishes what is in work and exits 0; SIGHUP rereads keys and certificate.\n"
      "  pergola server --model all-MiniLM-L6-v2 --host 0.0.0.0 --port 42668");
  auto flags = std::make_shared<ServerFlags>();
  AddComputeFlags(*command, flags->compute);
  flags->grpc.port = 42668;
  AddHostFlags(*command, flags->grpc.hosts, flags->grpc.port);
  command->add_option("--status-host", flags->status_host, "Address of the status pages")
      ->capture_default_str();
  command
      ->add_option("--status-port", flags->status_port,
                   "HTTP port of /healthz, /readyz and /metrics (0: any free one; default: none)")
      ->check(CLI::Range(0, 65535));
  command->add_option("--tls-cert", flags->tls_cert_file, "Certificate chain (PEM)");
  command->add_option("--tls-key", flags->tls_key_file, "Private key (PEM)");
  command->add_option("--api-key-file", flags->api_key_file,
                      "Keys of gateways, one a line; needs TLS. Without: no keys needed");
  AddOtlpFlag(*command, flags->otlp_endpoint);
  CompleteServing(*command, run, [flags](const SetAgain&) { return RunServer(*flags); });
}

}  // namespace pergola::cli
