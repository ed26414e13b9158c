// Loops that reach the machine's limits, for `pergola bench hw`: what kernels are compared with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace {

// As a float 1, as bf16 pairs (0, 1), as bytes (0, 0, -128, 63).
constexpr int32_t kOne = 0x3f800000;

struct F32Peak {
  static constexpr int kOperations = 2 * kLanes;
  static constexpr int32_t kFactor = kOne;
  using Sum = VecF;
  static void Step(VecI a, VecI b, VecF& sum) {
    sum = MulAdd(FromBits(a), FromBits(b), sum);
    KeepInRegister(sum);
  }
};
struct PairDotPeak {
  static constexpr int kOperations = 4 * kLanes;
  static constexpr int32_t kFactor = 1;  // low half 1, and that of kOne is 0: no sum overflows
  using Sum = VecI;
  static void Step(VecI a, VecI b, VecI& sum) { AddPairDot(a, b, sum); }
};
struct ByteDotPeak {
  static constexpr int kOperations = 8 * kLanes;
  static constexpr int32_t kFactor = kOne;
  using Sum = VecI;
  static void Step(VecI a, VecI b, VecI& sum) { AddByteDot(a, b, sum); }
};
struct BF16DotPeak {
  static constexpr int kOperations = 4 * kLanes;
  static constexpr int32_t kFactor = kOne;
  using Sum = VecF;
  static void Step(VecI a, VecI b, VecF& sum) { AddBF16Dot(a, b, sum); }
};

// As many chains as registers allow: enough to hide the latency of a multiply-add.
template <class Kind>
int64_t RunPeak(int64_t rounds) {
  constexpr int kChains = kVectorRegisters - 4;
  // Each begins elsewhere: the compiler would merge equal chains.
  typename Kind::Sum sums[kChains];
#pragma GCC unroll 32
  for (int chain = 0; chain < kChains; ++chain) {
    sums[chain] = reinterpret_cast<typename Kind::Sum>(SetInt(chain));
  }
  VecI a = SetInt(kOne);
  const VecI b = SetInt(Kind::kFactor);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (int chain = 0; chain < kChains; ++chain) {
      KeepInRegister(a);  // else a product that is a step of its own is computed once for all
      Kind::Step(a, b, sums[chain]);
    }
  }
  // The compiler must take the sums for used.
  typename Kind::Sum used[kChains];
#pragma GCC unroll 32
  for (int chain = 0; chain < kChains; ++chain) used[chain] = sums[chain];
  asm volatile("" : : "r"(used) : "memory");
  return rounds * kChains * Kind::kOperations;
}

int32_t ReadBytes(const std::byte* bytes, int64_t count) {
  constexpr int64_t kBytes = 4 * kLanes;
  // Where the next pages lie is looked up together: RowsBlock (rows-inl.h) says why.
  constexpr int64_t kStretch = 1 << 17;
  VecI sums[4] = {};
  for (int64_t begin = 0; begin < count; begin += kStretch) {
    const int64_t end = count - begin < kStretch ? count : begin + kStretch;
    FindPages(bytes + begin, end - begin);
    for (int64_t at = begin; at < end; at += 4 * kBytes) {
#pragma GCC unroll 4
      for (int part = 0; part < 4; ++part) sums[part] ^= LoadInt(bytes + at + part * kBytes);
    }
  }
  const VecI all = (sums[0] ^ sums[1]) ^ (sums[2] ^ sums[3]);
  int32_t result = 0;
  for (int lane = 0; lane < kLanes; ++lane) result ^= all[lane];
  return result;
}

}  // namespace
