#include "gateway/answer_cache.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace pergola::gateway {

uint64_t AnswerCache::HashOf(const Route* route, std::string_view body) {
  const auto hash = static_cast<uint64_t>(std::hash<std::string_view>()(body));
  return hash ^ (static_cast<uint64_t>(std::hash<const Route*>()(route)) * 0x9E3779B97F4A7C15u);
}

AnswerCache::Entries::iterator AnswerCache::Find(uint64_t hash, const Route* route,
                                                 std::string_view body) {
  const auto [begin, end] = places_.equal_range(hash);
  for (auto place = begin; place != end; ++place) {
    if (place->second->route == route && place->second->body == body) return place->second;
  }
  return entries_.end();
}

std::shared_ptr<const EmbedAnswer> AnswerCache::Get(const Route* route, std::string_view body) {
  if (capacity_bytes_ == 0 || body.size() > kLongestBody) return nullptr;
  const uint64_t hash = HashOf(route, body);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = Find(hash, route, body);
  if (entry == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->answer;
}

bool AnswerCache::ComesAgain(const Route* route, std::string_view body) {
  if (capacity_bytes_ == 0 || body.size() > kLongestBody) return false;
  const uint64_t hash = HashOf(route, body);
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(seen_[hash % seen_.size()], hash) == hash;
}

bool AnswerCache::IsKept(const EmbedAnswer& answer) {
  const std::vector<NumberFormat>& formats = answer.call.formats;
  return answer.call.ask == Ask::kEmbeddings &&
         std::all_of(formats.begin(), formats.end(), [](const NumberFormat& format) {
           return format.type == service::NumberType::kFloat && !format.base64;
         });
}

void AnswerCache::Put(const Route* route, std::string body, EmbedAnswer* answer) {
  auto rows = std::make_shared<std::vector<std::string>>(answer->embeddings.size());
  size_t bytes = sizeof(EmbedAnswer) + 2 * body.size() + 400;  // the answer echoes texts; nodes
  for (size_t index = 0; index < rows->size(); ++index) {
    answer->AppendRow(index, NumberFormat{}, &(*rows)[index]);
    (*rows)[index].shrink_to_fit();
    bytes += (*rows)[index].size() + sizeof(std::string) + sizeof(EmbedAnswer::Place);
  }
  answer->rendered = std::move(rows);
  if (bytes > capacity_bytes_ / 16) return;
  auto kept = std::make_shared<EmbedAnswer>(*answer);
  kept->outputs.clear();
  kept->promise = nullptr;
  const uint64_t hash = HashOf(route, body);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Find(hash, route, body) != entries_.end()) return;  // another was faster
  entries_.push_front({route, std::move(body), std::move(kept), bytes});
  places_.emplace(hash, entries_.begin());
  bytes_ += bytes;
  while (bytes_ > capacity_bytes_) {
    const auto oldest = std::prev(entries_.end());
    const auto [begin, end] = places_.equal_range(HashOf(oldest->route, oldest->body));
    places_.erase(
        std::find_if(begin, end, [&](const auto& place) { return place.second == oldest; }));
    bytes_ -= oldest->bytes;
    entries_.erase(oldest);
  }
}

size_t AnswerCache::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace pergola::gateway
