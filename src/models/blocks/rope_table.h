// Tables of rotary position embeddings.
//
// angle(p, k) = p * base^(-2k / W), computed as the reference library does: the inverse frequency
// and the product are rounded to f32 before cosine and sine are taken. No libm: its results differ
// by CPU (docs/numerics.md), and the tables must not.
#pragma once

#include <cstdint>
#include <vector>

namespace pergola::models {

// [positions, head_width] f32: row p holds W/2 cosines, then W/2 sines. `head_width` even, base
// > 1.
std::vector<float> MakeRopeTable(int64_t positions, int64_t head_width, double base);

// Deterministic on every CPU; within 2 ulp (double) for |x| < 1e5 (sine, cosine) and for normal
// results (exponential), positive arguments (logarithm).
double PortableSin(double x);
double PortableCos(double x);
double PortableExp(double x);
double PortableLog(double x);

}  // namespace pergola::models
