// Outputs by the exact sequence they were computed from: bounded by bytes, least recently used goes
// first.
//
// The key is the sequence itself, compared whole (a hash only finds the place), so two texts that
// tokenise alike share a row and no other two can. One row at full width serves every size and
// encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "service/inference_service.h"

namespace pergola::scheduler {

// What identifies a computation of one model.
struct SequenceKey {
  OutputSet outputs;
  Sequence sequence;
  friend bool operator==(const SequenceKey&, const SequenceKey&) = default;
};

struct SequenceKeyHash {
  size_t operator()(const SequenceKey& key) const;
};

// Thread-compatible: the scheduler's mutex guards it.
class ResultCache {
 public:
  // Keeps at most `capacity_bytes` of outputs, sequences and bookkeeping; 0 = keeps nothing.
  explicit ResultCache(size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // Null when there is none; makes the entry the most recent.
  std::shared_ptr<const service::SequenceOutput> Get(const SequenceKey& key);
  // An entry larger than a sixteenth of the capacity is not kept.
  void Put(const SequenceKey& key, std::shared_ptr<const service::SequenceOutput> output);

  size_t bytes() const { return bytes_; }
  size_t entries() const { return places_.size(); }

 private:
  struct Entry {
    const SequenceKey* key;  // in the map
    std::shared_ptr<const service::SequenceOutput> output;
    size_t bytes;
  };
  using Entries = std::list<Entry>;  // most recent first

  size_t capacity_bytes_;
  size_t bytes_ = 0;
  Entries entries_;
  std::unordered_map<SequenceKey, Entries::iterator, SequenceKeyHash> places_;
};

}  // namespace pergola::scheduler
