#include "cli/remote_parts.h"

#include "cli/layer_range.h"
#include "cli/serve_flags.h"
#include "cli/whole_file.h"
#include "engine/slicer.h"

namespace pergola::cli {
namespace {

grid::PayloadType TypeOf(const std::string& name) {
  if (name == "bf16") return grid::PayloadType::kBF16;
  return name == "i8" ? grid::PayloadType::kI8 : grid::PayloadType::kF32;
}

// "0-8=URL".
Result<grid::FfnServer> ParseShard(const std::string& text) {
  const size_t sign = text.find('=');
  if (sign == std::string::npos || sign + 1 == text.size()) {
    return InvalidArgumentError("'" + text + "' is no shard, expected first-last=URL");
  }
  PERGOLA_ASSIGN_OR_RETURN(const models::LayerRange layers, ParseLayerRange(text.substr(0, sign)));
  return grid::FfnServer(text.substr(sign + 1), layers);
}

Result<std::vector<grid::FfnServer>> FfnServers(const SplitFlags& flags) {
  std::vector<grid::FfnServer> servers(flags.ffn.begin(), flags.ffn.end());
  if (!flags.grid.empty()) servers.emplace_back(flags.grid);
  for (const std::string& text : flags.shards) {
    PERGOLA_ASSIGN_OR_RETURN(grid::FfnServer server, ParseShard(text));
    servers.push_back(std::move(server));
  }
  return servers;
}

}  // namespace

Result<std::unique_ptr<RemoteParts>> RemoteParts::Connect(const SplitFlags& flags,
                                                          const engine::LanguageModel& model) {
  auto parts = std::make_unique<RemoteParts>();
  if (flags.local_embed() && flags.local_ffn()) return parts;
  grid::ExpectedPart expected;
  PERGOLA_ASSIGN_OR_RETURN(expected.identity, engine::IdentityOf(model.checkpoint()));
  expected.numeric_class = model.numeric_class();
  expected.hidden_size = model.config().hidden_size;
  expected.num_layers = model.config().num_layers;
  expected.patience = Seconds(flags.wait_s);
  PERGOLA_ASSIGN_OR_RETURN(const GridTls tls, ReadGridTls(flags.tls));
  expected.tls = tls.client;
  if (!flags.api_key_file.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(expected.key, ReadKeyFile(flags.api_key_file));
  }
  if (!flags.local_embed()) {
    const std::string& url = flags.grid.empty() ? flags.embed : flags.grid;
    if (url.starts_with("http://") || url.starts_with("https://")) {
      PERGOLA_ASSIGN_OR_RETURN(parts->http_embed_,
                               HttpEmbed::Connect(url, expected, flags.tls.server_ca));
    } else {
      PERGOLA_ASSIGN_OR_RETURN(parts->embed_, grid::RemoteEmbed::Connect(url, expected));
    }
  }
  if (!flags.local_ffn()) {
    PERGOLA_ASSIGN_OR_RETURN(const std::vector<grid::FfnServer> servers, FfnServers(flags));
    PERGOLA_ASSIGN_OR_RETURN(parts->ffn_,
                             grid::RemoteFfn::Connect(servers, expected, TypeOf(flags.payload)));
  }
  return parts;
}

engine::GeneratorPorts RemoteParts::ports() {
  engine::GeneratorPorts ports{.embed = embed_.get(), .ffn = ffn_.get(), .head = embed_.get()};
  if (http_embed_) ports.embed = http_embed_.get();
  if (http_embed_) ports.head = http_embed_.get();
  return ports;
}

std::optional<grid::RemoteTimes> RemoteParts::TakeFfnTimes() {
  if (ffn_ == nullptr) return std::nullopt;
  const grid::RemoteTimes now = ffn_->times();
  grid::RemoteTimes taken = now;
  taken.waited -= before_.waited;
  taken.computed -= before_.computed;
  taken.sent_bytes -= before_.sent_bytes;
  taken.received_bytes -= before_.received_bytes;
  taken.calls -= before_.calls;
  before_ = now;
  return taken;
}

}  // namespace pergola::cli
