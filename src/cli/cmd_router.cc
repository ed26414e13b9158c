#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "cli/command_line.h"
#include "cli/frame_keys.h"
#include "cli/grid_tls.h"
#include "cli/serve_flags.h"
#include "cli/serving.h"
#include "cli/status_exit.h"
#include "core/periodic.h"
#include "gateway/auth.h"
#include "gateway/grid_pages.h"
#include "gateway/http_server.h"
#include "gateway/split_routes.h"
#include "grid/frame_server.h"
#include "grid/grid_split.h"
#include "grid/router.h"
#include "grid/topology.h"
#include "rpc/grid_link.h"

namespace pergola::cli {
namespace {

constexpr std::chrono::milliseconds kEvictionPeriod{500};

struct RouterFlags {
  std::string host = "127.0.0.1";
  int port = 42670;
  int frame_port = 42671;
  int http_port = 42672;
  std::string join_key_file;
  std::string api_key_file;
  GridTlsFiles tls;
  double evict_after_s = 3;
  double drain_timeout_s = 5;
};

Result<std::unique_ptr<rpc::GridListener>> ListenForMembers(const RouterFlags& flags,
                                                            const gateway::ApiKeys* keys,
                                                            const GridTls& tls,
                                                            grid::Topology& topology) {
  rpc::GridListenerOptions options;
  options.host = flags.host;
  options.port = flags.port;
  options.tls = tls.server_link;
  options.silence = std::max(options.silence, Seconds(flags.evict_after_s));
  if (keys != nullptr) {
    options.admits = [keys](std::string_view authorization) {
      return keys->Find(authorization).number >= 0;
    };
  }
  return rpc::GridListener::Start(options, topology);
}

// A frame as the body of a request.
Status AnswerFrame(grid::Router& router, std::string_view frame, const service::SplitCall& call,
                   std::string* answer) {
  const auto bytes = std::as_bytes(std::span(frame));
  PERGOLA_ASSIGN_OR_RETURN(
      const grid::FrameHeader header,
      grid::ParseFrameHeader(bytes.first(std::min(bytes.size(), grid::kFrameHeaderBytes))));
  const auto payload = bytes.subspan(grid::kFrameHeaderBytes);
  if (payload.size() != header.payload_bytes) {
    return InvalidArgumentError("the frame states a payload of " +
                                std::to_string(header.payload_bytes) + " bytes, there are " +
                                std::to_string(payload.size()));
  }
  PERGOLA_RETURN_IF_ERROR(grid::CheckPayload(header, payload));
  return router.Handle(header, payload, answer, call);
}

Result<std::unique_ptr<gateway::HttpServer>> ServePages(const RouterFlags& flags,
                                                        const grid::Topology& topology,
                                                        grid::Router& router) {
  gateway::HttpServerOptions options;
  options.hosts = {flags.host};
  options.port = flags.http_port;
  options.api_key_file = flags.api_key_file;
  options.tls_cert_file = flags.tls.cert;
  options.tls_key_file = flags.tls.key;
  options.max_body_bytes = static_cast<int64_t>(grid::kMaxPayloadBytes + grid::kFrameHeaderBytes);
  gateway::GridPagesOptions pages;
  pages.missing = [&topology] { return topology.Missing(); };
  pages.has_model = [&topology] { return topology.model() != nullptr; };
  pages.answer_frame = [&router](std::string_view frame, const service::SplitCall& call,
                                 std::string* answer) {
    return AnswerFrame(router, frame, call, answer);
  };
  pages.model_routes = std::make_shared<gateway::SplitRoutes>(
      std::make_shared<grid::GridSplit>(topology, router), !flags.api_key_file.empty());
  return gateway::HttpServer::Start(
      std::move(options), std::make_shared<gateway::GridPages>(topology, std::move(pages)));
}

int RunRouter(const RouterFlags& flags) {
  SignalWaiter signals;  // before any thread
  const auto tls = ReadGridTls(flags.tls);
  if (!tls.ok()) return Fail(tls.status());
  const Status admission = CheckHttpAdmission(flags.tls, flags.api_key_file);
  if (!admission.ok()) return Fail(admission);
  std::unique_ptr<gateway::ApiKeys> keys;
  if (!flags.join_key_file.empty()) {
    auto loaded = gateway::ApiKeys::Load(flags.join_key_file);
    if (!loaded.ok()) return Fail(loaded.status());
    keys = std::move(*loaded);
  }
  grid::TopologyOptions options;
  options.silence = Seconds(flags.evict_after_s);
  options.needs_tls = !flags.tls.server_ca.empty();
  grid::Topology topology(options);
  grid::RouterOptions asking;
  asking.tls = tls->client;
  grid::Router router(topology, asking);
  const Periodic evictions(kEvictionPeriod,
                           [&] { topology.Evict(std::chrono::steady_clock::now()); });
  const auto client_keys = FrameKeys::Read(flags.api_key_file, /*join_key_file=*/"");
  if (!client_keys.ok()) return Fail(client_keys.status());
  auto frames = grid::FrameServer::Start(
      {.host = flags.host,
       .port = flags.frame_port,
       .tls = tls->server,
       .admits = (*client_keys)->Admission([&topology] { topology.CountRefused(); })},
      [&router](const grid::FrameHeader& request, std::span<const std::byte> payload,
                std::string* answer) { return router.Handle(request, payload, answer); });
  if (!frames.ok()) return Fail(frames.status());
  auto pages = ServePages(flags, topology, router);
  if (!pages.ok()) return Fail(pages.status());
  auto members = ListenForMembers(flags, keys.get(), *tls, topology);
  if (!members.ok()) return Fail(members.status());
  Running running;
  running.addresses = {tls->scheme() + flags.host + ":" + std::to_string((*frames)->port()),
                       (*pages)->addresses().front(),
                       "grpc://" + flags.host + ":" + std::to_string((*members)->port())};
  running.reload = [&] {
    if (keys != nullptr) TellReloaded(keys->Reload(), "join keys");
    if ((*client_keys)->any()) {
      const Status pages_status = (*pages)->ReloadKeys();
      TellReloaded(pages_status.ok() ? (*client_keys)->Reload() : pages_status, "keys");
    }
    const bool certificates = tls->server != nullptr || tls->client != nullptr;
    if (certificates) RenewTls(flags.tls, *tls, {.http = pages->get(), .listener = members->get()});
    if (keys == nullptr && !(*client_keys)->any() && !certificates) {
      std::fputs("nothing to reload: no key file, no certificate\n", stderr);
    }
  };
  running.drain = [&](std::chrono::milliseconds timeout) {
    const grid::CallLimit limit{.deadline = std::chrono::steady_clock::now() + timeout};
    const bool answered = (*frames)->Drain(timeout);
    router.Cancel();  // what is left
    return (*pages)->Drain(limit.Remaining(timeout)) && answered;
  };
  return RunUntilStopped(signals, running, flags.drain_timeout_s);
}

void AddPort(CLI::App& command, const char* name, int& port, const char* help) {
  command.add_option(name, port, help)->check(CLI::Range(0, 65535))->capture_default_str();
}

}  // namespace

void AddRouter(CLI::App& app, Run* run) {
  CLI::App* command =
      app.add_subcommand("router", "One address for a language model split over servers");
  command->footer(
      "Servers of parts join with `pergola serve --role ... --join HOST:PORT`, clients ask with\n"
      "`pergola predict --grid pergola://HOST:FRAME_PORT`. /v1/grid on the HTTP port shows who\n"
      "has joined, /readyz answers 503 with what is missing. See docs/split.md.\n"
      "  pergola router --host 127.0.0.1 --port 42670");
  auto flags = std::make_shared<RouterFlags>();
  command->add_option("--host", flags->host, "IPv4 address to listen on")->capture_default_str();
  AddPort(*command, "--port", flags->port, "Where servers join, gRPC (0: any free one)");
  AddPort(*command, "--frame-port", flags->frame_port, "Where clients ask, frames (0: any)");
  AddPort(*command, "--http-port", flags->http_port, "Of /v1/grid, /healthz, /readyz (0: any)");
  command->add_option("--join-key-file", flags->join_key_file,
                      "Keys that servers may join with, one a line; reread on SIGHUP. Without: "
                      "none needed");
  command->add_option("--api-key-file", flags->api_key_file,
                      "Keys of clients, over frames and HTTP, one a line; reread on SIGHUP");
  command->add_option("--tls-cert", flags->tls.cert, "Certificate chain (PEM) of all three ports");
  command->add_option("--tls-key", flags->tls.key, "Private key (PEM)");
  command->add_option(
      "--tls-client-ca", flags->tls.client_ca,
      "Authorities (PEM) of certificates that servers and clients of frames need; with "
      "--api-key-file, for HTTP");
  command->add_option("--member-ca", flags->tls.server_ca,
                      "Authorities (PEM) of servers that join, which then all need TLS");
  AddSecondsFlag(*command, "--evict-after", flags->evict_after_s, 0.1,
                 "Seconds without a beat that end a membership; servers send one a second");
  AddDrainFlag(*command, flags->drain_timeout_s);
  CompleteServing(*command, run, [flags](const SetAgain&) { return RunRouter(*flags); });
}

}  // namespace pergola::cli
