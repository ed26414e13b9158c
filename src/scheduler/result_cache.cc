#include "scheduler/result_cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <utility>

namespace pergola::scheduler {

size_t SequenceKeyHash::operator()(const SequenceKey& key) const {
  return XXH3_64bits_withSeed(key.ids.data(), key.ids.size() * sizeof(int32_t),
                              static_cast<XXH64_hash_t>(key.task));
}

std::shared_ptr<const service::Rows> ResultCache::Get(const SequenceKey& key) {
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->rows;
}

void ResultCache::Put(const SequenceKey& key, std::shared_ptr<const service::Rows> rows) {
  // List and hash nodes, the Rows object and its control block: some 200 bytes.
  constexpr size_t kOverheadBytes = 200;
  const size_t bytes =
      kOverheadBytes + key.ids.size() * sizeof(int32_t) + rows->values.size() * sizeof(float);
  if (bytes > capacity_bytes_ / 16) return;
  const auto [place, added] = places_.try_emplace(key);
  if (!added) return;  // the same computation gives the same bits
  entries_.push_front({&place->first, std::move(rows), bytes});
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
