#include "cli/serve_part.h"

#include <cstdio>
#include <memory>
#include <optional>

#include "cli/command_line.h"
#include "cli/layer_range.h"
#include "cli/model_location.h"
#include "cli/pull_display.h"
#include "cli/status_exit.h"
#include "core/signals.h"
#include "grid/frame_server.h"
#include "grid/part_service.h"
#include "hub/hub_config.h"

namespace pergola::cli {
namespace {

Result<std::unique_ptr<grid::PartService>> LoadPart(const PartServerFlags& flags) {
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
  return grid::PartService::Load(location->path.string(), options);
}

void PrintFacts(const grid::PartFacts& facts, const std::string& host, int port) {
  std::fprintf(stderr, "mode      %s\nmodel     %s, width %lld, vocabulary %lld, %lld layers\n",
               facts.mode.c_str(), facts.model.c_str(), static_cast<long long>(facts.hidden_size),
               static_cast<long long>(facts.vocab_size), static_cast<long long>(facts.num_layers));
  if (facts.layers.size() > 0) {
    std::fprintf(stderr, "layers    %lld-%lld\n", static_cast<long long>(facts.layers.first),
                 static_cast<long long>(facts.layers.last));
  }
  std::fprintf(stderr, "identity  %s\nclass     %s\nlistening on pergola://%s:%d\nReady.\n",
               facts.identity.c_str(), facts.numeric_class.c_str(), host.c_str(), port);
}

}  // namespace

int ServePart(const PartServerFlags& flags) {
  SignalWaiter signals;  // before any thread
  auto part = LoadPart(flags);
  if (!part.ok()) return Fail(part.status());
  grid::PartService& service = **part;
  auto server = grid::FrameServer::Start(
      {.host = flags.host, .port = flags.part.frame_port},
      [&service](const grid::FrameHeader& request, std::span<const std::byte> payload,
                 std::string* answer) { return service.Handle(request, payload, answer); });
  if (!server.ok()) return Fail(server.status());
  PrintFacts(service.facts(), flags.host, (*server)->port());
  while (signals.Wait() == Signal::kReload) {
  }
  return kExitOk;
}

}  // namespace pergola::cli
