#include "gateway/request_id.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>

namespace pergola::gateway {
namespace {

bool IsIdChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c == '_' || c == '-';
}

uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) ^ device();
}

// splitmix64: a bijection, so that ids of one process differ as long as the counter does.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

bool IsSaneRequestId(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), IsIdChar);
}

std::string MakeRequestId() {
  static std::atomic<uint64_t> counter = RandomSeed();
  const uint64_t bits = Mix(counter.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed));
  std::string id = "req-";
  for (int shift = 60; shift >= 0; shift -= 4)
    id.push_back("0123456789abcdef"[(bits >> shift) & 15]);
  return id;
}

std::string RequestIdFor(std::optional<std::string_view> given) {
  return given && IsSaneRequestId(*given) ? std::string(*given) : MakeRequestId();
}

}  // namespace pergola::gateway
