// Who serves which part of a split model: what a server says of itself when it joins a grid, and
// the list that the router keeps. Plain types between the transport (rpc/grid_link.h) and the
// router (grid/router.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola::service {

struct GridMemberFacts {
  std::string model;
  std::string identity;       // 64 hexadecimal digits, of the whole model
  std::string numeric_class;  // which arithmetic
  std::string url;            // pergola://host:port, as the router reaches it
  bool embed = false;         // answers rows of the table
  bool head = false;          // answers logits
  bool ffn = false;           // answers the layers below
  int64_t first_layer = 0;    // of ffn, inclusive
  int64_t last_layer = -1;
  int64_t num_layers = 0;  // of the whole model
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  float embed_scale = 1;
  uint64_t memory_bytes = 0;
  std::string slices_url = {};  // where it shares slices of the model; empty: nowhere
  // What it joined with, which its frames want to be shown; empty: none. Nobody else is told.
  std::string key = {};
};

// A server without a part, asking for one.
struct GridSpare {
  std::string name;      // the same every time it asks
  std::string failed;    // why it could not take the last assignment; empty: it was not tried
  bool leaving = false;  // it wants none any more
};

// A part that nobody serves, for a spare to take.
struct GridAssignment {
  std::string model;
  std::string identity;
  std::string numeric_class;
  bool embed = false;  // the table and the projection; else the layers
  int64_t first_layer = 0;
  int64_t last_layer = -1;
  std::vector<std::string> sources;  // URLs where members share slices
};

// What a heartbeat says.
struct GridLoad {
  int64_t in_flight = 0;  // requests being answered
  uint64_t requests = 0;  // answered since the start
  uint64_t memory_bytes = 0;
};

// Thread-safe; calls are short and do not block.
class GridRegistry {
 public:
  virtual ~GridRegistry() = default;

  // The new member's id. FAILED_PRECONDITION with both values when it is of another model or
  // arithmetic than the members; INVALID_ARGUMENT for facts that contradict themselves;
  // RESOURCE_EXHAUSTED.
  virtual Result<uint64_t> Add(const GridMemberFacts& facts) = 0;
  // NOT_FOUND when it is no member any more.
  virtual Status Beat(uint64_t id, const GridLoad& load) = 0;
  // Nothing happens for one that is no member.
  virtual void Remove(uint64_t id) = 0;
  // What `spare` is to take; nothing: no part is missing that nobody else is taking. It keeps an
  // assignment as long as it asks. RESOURCE_EXHAUSTED: too many spares.
  virtual Result<std::optional<GridAssignment>> Assign(const GridSpare& spare) = 0;
  // The members and what is missing, a JSON object.
  virtual std::string GridJson() const = 0;
};

}  // namespace pergola::service
