// The parts of a split model that `pergola predict` reaches over the network.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/grid_tls.h"
#include "cli/http_embed.h"
#include "engine/generator.h"
#include "grid/remote_part.h"

namespace pergola::cli {

struct SplitFlags {
  std::string embed;                // of either scheme, pergola:// or http://; empty: here
  std::vector<std::string> ffn;     // URLs, each for the layers that it states
  std::vector<std::string> shards;  // "0-8=URL"
  std::string grid;                 // URL of a router that stands for all these
  bool attention_only = false;
  std::string payload = "f32";
  GridTlsFiles tls;
  std::string api_key_file;  // its first line is the key that servers are shown; empty: none
  double wait_s = 0;         // how long a call is made again while nobody answers it

  bool local_embed() const { return embed.empty() && grid.empty(); }
  bool local_ffn() const { return ffn.empty() && shards.empty() && grid.empty(); }
};

// Thread-confined.
class RemoteParts {
 public:
  // Without flags nothing is remote. UNAVAILABLE; FAILED_PRECONDITION when a server's model or
  // arithmetic is not `model`'s.
  static Result<std::unique_ptr<RemoteParts>> Connect(const SplitFlags& flags,
                                                      const engine::LanguageModel& model);

  // For a generator that this object outlives.
  engine::GeneratorPorts ports();
  // What the servers of feed-forward layers took since the call before; none when there are none.
  std::optional<grid::RemoteTimes> TakeFfnTimes();

 private:
  // At most one of these two.
  std::unique_ptr<grid::RemoteEmbed> embed_;
  std::unique_ptr<HttpEmbed> http_embed_;
  std::unique_ptr<grid::RemoteFfn> ffn_;
  grid::RemoteTimes before_;
};

}  // namespace pergola::cli
