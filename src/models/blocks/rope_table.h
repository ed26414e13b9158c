// Tables of rotary position embeddings.
//
// angle(p, k) = p * base^(-2k / W), computed as the reference library does: the inverse frequency
// and the product are rounded to f32 before cosine and sine are taken. Some models change the
// inverse frequencies for long contexts (RopeScaling), in f32 too. No libm: its results differ
// by CPU (docs/numerics.md), and the tables must not.
#pragma once

#include <cstdint>
#include <vector>

#include "core/thread_pool.h"

namespace pergola::models {

// How frequencies are changed for contexts longer than those of the first training.
enum class RopeScaling {
  kNone,
  kLinear,  // all divided by the factor
  kLlama3,  // long wavelengths divided by it, short ones kept, those between interpolated
};

struct RopeParameters {
  double base = 0;  // "rope_theta"
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  // kLlama3: wavelengths over original_positions / low_frequency_factor are divided, under
  // original_positions / high_frequency_factor kept.
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  int64_t original_positions = 0;
  // Divisors of each frequency [W/2], on top of the scaling (GGUF's rope_freqs); empty: none.
  std::vector<float> divisors = {};
};

// [positions, head_width] f32: row p holds W/2 cosines, then W/2 sines. `head_width` even,
// parameters.base > 1. Some 100 ns per value and thread: 0.2 s for 32,768 positions of 128 on one.
std::vector<float> MakeRopeTable(ThreadPool& threads, int64_t positions, int64_t head_width,
                                 const RopeParameters& parameters);

// Deterministic on every CPU; within 2 ulp (double) for |x| < 1e5 (sine, cosine) and for normal
// results (exponential), positive arguments (logarithm).
double PortableSin(double x);
double PortableCos(double x);
double PortableExp(double x);
double PortableLog(double x);

}  // namespace pergola::models
