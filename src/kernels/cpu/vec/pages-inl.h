// Where the pages of some memory lie, looked up before it is read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace {

// Of all at once, `count` bytes of 1 or more: page walks side by side take as long as one, and one
// after the other, as they are come to, each holds up what is behind it.
inline void FindPages(const std::byte* bytes, int64_t count) {
  constexpr int64_t kPage = 4096;
  for (int64_t at = 0; at < count; at += kPage) __builtin_prefetch(bytes + at, 0, 2);
  __builtin_prefetch(bytes + count - 1, 0, 2);
}

}  // namespace
