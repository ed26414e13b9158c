// Answers to bodies that come again: not parsed, tokenised, computed or rendered a second time.
//
//   if (auto answer = answers.Get(route, body)) ...               // with a new id and new times
//   const bool keep = answers.ComesAgain(route, body);
//   ... the request is answered as any other ...
//   if (keep) answers.Put(route, std::move(body), answer);
//
// An entry is found by route and exact body and holds the answer with its rows as JSON numbers; a
// renderer writes the rest around them afresh. Bounded by bytes, least recently used goes first.
// Belongs to routes that never change: another prompt or other weights are other routes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "gateway/dialect.h"
#include "gateway/route_table.h"

namespace pergola::gateway {

// Thread-safe.
class AnswerCache {
 public:
  // Longer bodies are not looked for: a client that sends so much does not repeat itself.
  static constexpr size_t kLongestBody = size_t{64} << 10;

  // 0: keeps nothing.
  explicit AnswerCache(size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // Null: there is none. Its outputs are gone, its `rendered` is set.
  std::shared_ptr<const EmbedAnswer> Get(const Route* route, std::string_view body);

  // Whether this body was among the last few thousand, as far as a hash can tell; notes it. What
  // comes once is not worth its place.
  bool ComesAgain(const Route* route, std::string_view body);

  // Whether an answer is of the kind that is kept: embeddings as JSON numbers.
  static bool IsKept(const EmbedAnswer& answer);
  // Renders the rows of `*answer`, which is of that kind, and keeps a copy for `body`. An entry
  // larger than a sixteenth of the capacity is not kept.
  void Put(const Route* route, std::string body, EmbedAnswer* answer);

  size_t bytes() const;

 private:
  struct Entry {
    const Route* route;
    std::string body;
    std::shared_ptr<const EmbedAnswer> answer;
    size_t bytes;
  };
  using Entries = std::list<Entry>;  // most recent first
  static uint64_t HashOf(const Route* route, std::string_view body);
  Entries::iterator Find(uint64_t hash, const Route* route, std::string_view body);  // mutex_ held

  const size_t capacity_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  size_t bytes_ = 0;
  Entries entries_;
  std::unordered_multimap<uint64_t, Entries::iterator> places_;
  std::array<uint64_t, 4096> seen_ = {};  // hashes, each at its place
};

}  // namespace pergola::gateway
