#include "cli/serve_part.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "cli/command_line.h"
#include "cli/frame_keys.h"
#include "cli/layer_range.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/serving.h"
#include "cli/spare_duty.h"
#include "cli/status_exit.h"
#include "cli/whole_file.h"
#include "core/process_memory.h"
#include "core/signals.h"
#include "formats/slice.h"
#include "gateway/handler_chain.h"
#include "gateway/slice_share.h"
#include "gateway/split_routes.h"
#include "grid/frame_server.h"
#include "grid/part_service.h"
#include "hub/hub_config.h"
#include "hub/slice_store.h"
#include "rpc/grid_link.h"

namespace pergola::cli {
namespace {

void PrintFacts(const grid::PartFacts& facts, const std::string& url) {
  std::fprintf(stderr, "mode      %s\nmodel     %s, width %lld, vocabulary %lld, %lld layers\n",
               facts.mode.c_str(), facts.model.c_str(), static_cast<long long>(facts.hidden_size),
               static_cast<long long>(facts.vocab_size), static_cast<long long>(facts.num_layers));
  if (facts.layers.size() > 0) {
    std::fprintf(stderr, "layers    %lld-%lld\n", static_cast<long long>(facts.layers.first),
                 static_cast<long long>(facts.layers.last));
  }
  std::fprintf(stderr, "identity  %s\nclass     %s\nlistening on %s\nReady.\n",
               facts.identity.c_str(), facts.numeric_class.c_str(), url.c_str());
}

// Requests as heartbeats tell them.
struct Load {
  std::atomic<int64_t> in_flight = 0;
  std::atomic<uint64_t> requests = 0;
};

service::GridMemberFacts MemberFacts(const grid::PartFacts& facts, std::string url) {
  service::GridMemberFacts member;
  member.model = facts.model;
  member.identity = facts.identity;
  member.numeric_class = facts.numeric_class;
  member.url = std::move(url);
  member.ffn = facts.layers.size() > 0;
  member.embed = member.head = !member.ffn;
  member.first_layer = facts.layers.first;
  member.last_layer = facts.layers.last;
  member.num_layers = facts.num_layers;
  member.hidden_size = facts.hidden_size;
  member.vocab_size = facts.vocab_size;
  member.embed_scale = facts.embed_scale;
  member.memory_bytes = static_cast<uint64_t>(ReadMemoryUse().resident_bytes);
  return member;
}

// Null without --join. `decided` is called on the link's thread when it has joined, or may not.
Result<std::unique_ptr<rpc::GridLink>> JoinGrid(const PartFlags& flags, const GridTls& tls,
                                                service::GridMemberFacts facts, const Load& load,
                                                std::function<void()> decided) {
  if (flags.join.empty()) return std::unique_ptr<rpc::GridLink>();
  rpc::GridLinkOptions options;
  options.facts = std::move(facts);
  options.tls = tls.client_link;
  if (!flags.join_key_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(options.key, ReadKeyFile(flags.join_key_file));
  }
  options.load = [&load] {
    return service::GridLoad{load.in_flight, load.requests,
                             static_cast<uint64_t>(ReadMemoryUse().resident_bytes)};
  };
  options.changed = [router = flags.join, decided = std::move(decided)](const Status& status) {
    if (status.code() != StatusCode::kUnavailable) decided();
    if (status.ok()) {
      std::fprintf(stderr, "joined %s\n", router.c_str());
    } else {
      std::fprintf(stderr, "pergola: not in the grid of %s: %s\n", router.c_str(),
                   status.message().c_str());
    }
  };
  return std::make_unique<rpc::GridLink>(flags.join, std::move(options));
}

// Whether the files are in the folder of the slice themselves, not links to others.
bool HasOwnFiles(const std::filesystem::path& folder, const hub::SliceIndex& index) {
  std::error_code error;
  const auto own = [&](const std::string& name) {
    return std::filesystem::symlink_status(folder / name, error).type() ==
           std::filesystem::file_type::regular;
  };
  return own("index.json") &&
         std::all_of(index.files.begin(), index.files.end(),
                     [&](const hub::RemoteFile& file) { return own(file.path); });
}

// What `folder` has for other servers.
Result<gateway::SharedSlices> ShareOf(const std::filesystem::path& folder) {
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<hub::SliceIndex> found, hub::ScanSlices(folder));
  gateway::SharedSlices shared;
  std::vector<hub::OfferedSlice> list;
  for (const hub::SliceIndex& index : found) {
    const std::filesystem::path path = folder / index.slice.name;
    if (!HasOwnFiles(path, index)) continue;
    list.push_back(index.slice);
    std::error_code error;
    shared.files[index.slice.name + "/index.json"] = {
        (path / "index.json").string(),
        static_cast<int64_t>(std::filesystem::file_size(path / "index.json", error))};
    for (const hub::RemoteFile& file : index.files) {
      shared.files[index.slice.name + "/" + file.path] = {(path / file.path).string(), file.bytes};
    }
  }
  shared.list = hub::SliceListJson(list);
  return shared;
}

GridTlsFiles TlsFiles(const PartServerFlags& flags) {
  return {.cert = flags.http.tls_cert_file,
          .key = flags.http.tls_key_file,
          .client_ca = flags.part.client_ca,
          .server_ca = flags.part.join_ca};
}

std::string FrameHost(const PartServerFlags& flags) {
  return flags.http.hosts.empty() ? "127.0.0.1" : flags.http.hosts.front();
}

// What would go wrong, or be open to others, only later.
Status CheckFlags(const PartServerFlags& flags) {
  const PartFlags& part = flags.part;
  if (part.spare || part.role == "embed" || !part.share.empty()) {
    PERGOLA_RETURN_IF_ERROR(CheckHttpAdmission(TlsFiles(flags), flags.http.api_key_file));
  }
  if (!part.join.empty() && part.join_key_file.empty() && !flags.http.api_key_file.empty()) {
    return InvalidArgumentError(
        "--join with --api-key-file needs --join-key-file: frames want a key then, and the router "
        "shows the one that was joined with");
  }
  const std::string host = FrameHost(flags);
  const bool any = host == "0.0.0.0" || host == "::";
  if (part.join.empty() || !part.announce.empty() || !any) return OkStatus();
  return InvalidArgumentError("--join with --host " + host +
                              " needs --announce-host: the router cannot reach " + host);
}

// `http`: null: there is none.
Status ReloadKeys(gateway::HttpServer* http, FrameKeys& frames) {
  if (http != nullptr) PERGOLA_RETURN_IF_ERROR(http->ReloadKeys());
  return frames.Reload();
}

// Null when there is nothing to answer over HTTP.
Result<std::unique_ptr<gateway::HttpServer>> ServeHttp(
    const PartServerFlags& flags, const std::shared_ptr<grid::PartService>& part) {
  std::vector<std::shared_ptr<gateway::HttpHandler>> handlers;
  if (part->facts().layers.size() == 0) {
    handlers.push_back(
        std::make_shared<gateway::SplitRoutes>(part, !flags.http.api_key_file.empty()));
  }
  if (!flags.part.share.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(gateway::SharedSlices shared, ShareOf(flags.part.share));
    handlers.push_back(std::make_shared<gateway::SliceShare>(std::move(shared)));
  }
  if (handlers.empty()) return std::unique_ptr<gateway::HttpServer>();
  return gateway::HttpServer::Start(flags.http,
                                    std::make_shared<gateway::HandlerChain>(std::move(handlers)));
}

}  // namespace

Result<std::shared_ptr<grid::PartService>> LoadPart(const PartServerFlags& flags) {
  grid::PartOptions options;
  options.role = flags.part.role == "ffn" ? grid::Role::kFfn : grid::Role::kEmbed;
  if (!flags.part.layers.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(options.layers, ParseLayerRange(flags.part.layers));
  }
  options.ops.num_threads = flags.threads;
  if (flags.reference) options.activations = kernels::ActivationPrecision::kF32;
  hub::HubConfig hub = hub::HubConfig::FromEnvironment();
  hub.offline |= flags.offline;
  PullDisplay display(flags.model, /*quiet=*/false);
  const Result<ModelLocation> location = ResolveModel(flags.model, hub, display);
  display.Finish();
  if (!location.ok()) return location.status();
  if (flags.part.verify && formats::IsSlice(location->path.string())) {
    PERGOLA_RETURN_IF_ERROR(formats::OpenSlice(location->path.string(), /*verify=*/true).status());
  }
  PERGOLA_ASSIGN_OR_RETURN(std::unique_ptr<grid::PartService> part,
                           grid::PartService::Load(location->path.string(), options));
  return std::shared_ptr<grid::PartService>(std::move(part));  // second owner: the HTTP routes
}

Result<GridTls> ReadPartTls(const PartServerFlags& flags) { return ReadGridTls(TlsFiles(flags)); }

int ServePart(const PartServerFlags& flags) {
  SignalWaiter signals;  // before any thread
  auto tls = ReadPartTls(flags);
  if (!tls.ok()) return Fail(tls.status());
  if (const Status status = CheckFlags(flags); !status.ok()) return Fail(status);
  std::unique_ptr<SpareDuty> duty;
  if (flags.part.spare) {
    auto made = SpareDuty::Make(flags);
    if (!made.ok()) return Fail(made.status());
    duty = std::move(*made);
  }
  auto part = [&] {
    const StopWhileLoading stop(signals);
    return duty == nullptr ? LoadPart(flags) : duty->AwaitPart();
  }();
  if (!part.ok()) return Fail(part.status());
  if (duty != nullptr) {  // it may have waited for longer than a certificate holds
    if (auto now = ReadPartTls(flags); now.ok()) tls = std::move(now);
  }
  grid::PartService& service = **part;
  const std::string host = FrameHost(flags);
  Load load;
  const auto keys = FrameKeys::Read(flags.http.api_key_file, flags.part.join_key_file);
  if (!keys.ok()) return Fail(keys.status());
  auto server = grid::FrameServer::Start(
      {.host = host,
       .port = flags.part.frame_port,
       .tls = tls->server,
       .admits = (*keys)->Admission([&service] { service.CountRefused(); })},
      [&service, &load](const grid::FrameHeader& request, std::span<const std::byte> payload,
                        std::string* answer) {
        ++load.in_flight;
        Status status = service.Handle(request, payload, answer);
        --load.in_flight;
        ++load.requests;
        return status;
      });
  if (!server.ok()) return Fail(server.status());
  auto started = ServeHttp(flags, *part);
  if (!started.ok()) return Fail(started.status());
  const std::unique_ptr<gateway::HttpServer> http = std::move(*started);
  if (http != nullptr) {
    for (const std::string& address : http->addresses()) {
      std::fprintf(stderr, "listening on %s\n", address.c_str());
    }
  }
  const std::string port = ":" + std::to_string((*server)->port());
  PrintFacts(service.facts(), tls->scheme() + host + port);
  const std::string& announced = flags.part.announce.empty() ? host : flags.part.announce;
  service::GridMemberFacts facts = MemberFacts(service.facts(), tls->scheme() + announced + port);
  if (!flags.part.share.empty()) {
    facts.slices_url = (tls->server == nullptr ? "http://" : "https://") + announced + ":" +
                       std::to_string(http->port()) + std::string(gateway::kSlicesPath);
  }
  // A member is no spare any more; who may not join keeps the part from nobody else.
  auto link = JoinGrid(flags.part, *tls, std::move(facts), load, [&duty] { duty.reset(); });
  if (!link.ok()) return Fail(link.status());
  Running running;
  const bool certificates = tls->server != nullptr || tls->client != nullptr;
  if ((*keys)->any() || certificates) {
    running.reload = [&] {
      if ((*keys)->any()) TellReloaded(ReloadKeys(http.get(), **keys), "keys");
      if (certificates) RenewTls(TlsFiles(flags), *tls, {.http = http.get(), .link = link->get()});
    };
  }
  running.drain = [&](std::chrono::milliseconds timeout) {
    link->reset();  // first: nothing new comes from the router
    return http == nullptr || http->Drain(timeout);
  };
  return RunUntilStopped(signals, running, flags.drain_timeout_s);
}

}  // namespace pergola::cli
