#include "scheduler/result_cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <utility>

namespace pergola::scheduler {

size_t SequenceKeyHash::operator()(const SequenceKey& key) const {
  const std::vector<int32_t>& ids = key.sequence.ids;
  return XXH3_64bits_withSeed(ids.data(), ids.size() * sizeof(int32_t), key.outputs.bits());
}

std::shared_ptr<const service::SequenceOutput> ResultCache::Get(const SequenceKey& key) {
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->output;
}

void ResultCache::Put(const SequenceKey& key,
                      std::shared_ptr<const service::SequenceOutput> output) {
  // List and hash nodes, the output's object and its control block.
  constexpr size_t kOverheadBytes = 200 + sizeof(service::SequenceOutput);
  const size_t bytes = kOverheadBytes + key.sequence.ids.size() * sizeof(int32_t) +
                       key.sequence.spans.size() * sizeof(TokenSpan) +
                       output->values() * sizeof(float);
  if (bytes > capacity_bytes_ / 16) return;
  const auto [place, added] = places_.try_emplace(key);
  if (!added) return;  // the same computation gives the same bits
  entries_.push_front({&place->first, std::move(output), bytes});
  place->second = entries_.begin();
  bytes_ += bytes;
  while (bytes_ > capacity_bytes_) {
    const Entry& oldest = entries_.back();
    bytes_ -= oldest.bytes;
    places_.erase(places_.find(*oldest.key));
    entries_.pop_back();
  }
}

}  // namespace pergola::scheduler
