// exp, tanh and the activations, on whole vectors, without libm. The errors named here are asserted
// by conformance_test.cc and listed in docs/numerics.md. Coefficients: weighted least squares
// driven to a minimax fit in double precision. Not a number stays not a number.
#pragma once

#include "kernels/cpu/vec/normal_tail-inl.h"
#include "kernels/ops_types.h"

namespace {

using pergola::kernels::Epilogue;

// e^x within 2 ulp for x in [-87.33, 88.72], the argument's range once clamped.
inline VecF ExpInRange(VecF x) {
  // Adding 1.5 * 2^23 rounds to an integer n, which then stands in the low bits.
  const VecF magic = Set(12582912.0f);
  const VecF shifted = MulAdd(x, Set(1.44269504f), magic);
  const VecF n = shifted - magic;
  // ln 2 in two parts, the first with trailing zeros so that n times it is exact.
  VecF r = MulAdd(n, Set(-0.693359375f), x);
  r = MulAdd(n, Set(2.12194440e-4f), r);
  VecF p = Set(0.0013814466740771996f);
  p = MulAdd(p, r, Set(0.008368780429036885f));
  p = MulAdd(p, r, Set(0.04166839421739747f));
  p = MulAdd(p, r, Set(0.16666520107626973f));
  p = MulAdd(p, r, Set(0.4999999341246973f));
  p = MulAdd(p * r, r, r) + 1.0f;
  return FromBits(Bits(p) + (Bits(shifted) << 23));
}

constexpr float kLowestExponent = -87.33f;
constexpr float kHighestExponent = 88.72f;

// e^x for x <= 0; 0 below -87.33.
inline VecF ExpOfNegative(VecF x) {
  const VecF lowest = Set(kLowestExponent);
  return x < lowest ? VecF{} : ExpInRange(Max(lowest, x));
}

// e^x; 0 below -87.33, infinity above 88.72.
inline VecF Exp(VecF x) {
  const VecF lowest = Set(kLowestExponent), highest = Set(kHighestExponent);
  const VecF result = ExpInRange(Max(lowest, Min(highest, x)));
  return x > highest ? Set(__builtin_inff()) : x < lowest ? VecF{} : result;
}

// tanh(x) within 3 ulp.
inline VecF Tanh(VecF x) {
  const VecF magnitude = Abs(x);
  const VecF large = 1.0f - 2.0f / (Exp(magnitude + magnitude) + 1.0f);
  const VecF sign = FromBits(Bits(x) & static_cast<int32_t>(0x80000000));
  const VecF u = x * x;
  VecF p = Set(-0.005681440025938616f);
  p = MulAdd(p, u, Set(0.020618761112687782f));
  p = MulAdd(p, u, Set(-0.053733737561693216f));
  p = MulAdd(p, u, Set(0.13331373940148158f));
  p = MulAdd(p, u, Set(-0.3333327956545684f));
  const VecF small = MulAdd(p * u, x, x);
  return magnitude < 0.625f ? small : FromBits(Bits(large) | Bits(sign));
}

// x / (1 + e^-x)
inline VecF Silu(VecF x) { return x / (1.0f + Exp(-x)); }

// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x / (1 + e^(-2 sqrt(2/pi) (x + 0.044715 x^3))):
// no cancellation for negative x.
inline VecF GeluTanh(VecF x) {
  const VecF factor = MulAdd(x * x, Set(-0.0713548162726f), Set(-1.59576912161f));
  return x / (1.0f + Exp(x * factor));
}

// x Phi(x), given Phi(-|x|).
inline VecF TimesNormal(VecF x, VecF tail) { return x * (x > 0.0f ? 1.0f - tail : tail); }

// x Phi(x), with Phi(-z) = e^(-z^2/2) t P(t), t = 1 / (1 + 0.42 z / sqrt(2)), for z >= 0.
inline VecF GeluErfByExp(VecF x) {
  const VecF t = 1.0f / MulAdd(Abs(x), Set(0.296984848098f), Set(1.0f));
  VecF p = Set(-0.0205686572f);
  p = MulAdd(p, t, Set(0.115352296f));
  p = MulAdd(p, t, Set(-0.243320688f));
  p = MulAdd(p, t, Set(0.218574134f));
  p = MulAdd(p, t, Set(-0.0986639767f));
  p = MulAdd(p, t, Set(0.106866438f));
  p = MulAdd(p, t, Set(0.0750204652f));
  p = MulAdd(p, t, Set(0.109947215f));
  p = MulAdd(p, t, Set(0.118306113f));
  p = MulAdd(p, t, Set(0.11848666f));
  return TimesNormal(x, ExpOfNegative(x * -0.5f * x) * (p * t));
}

// x Phi(x). Where a table can be looked up in registers Phi(-z) comes in pieces, for half of the
// work; a lane so far out that the pieces lose its result's digits takes the formula above.
inline VecF GeluErf(VecF x) {
  if constexpr (!kHasLookUp) return GeluErfByExp(x);
  const VecF magic = Set(12582912.0f);
  const VecF z = Min(Set(kLargestNormalTail), Abs(x));  // not a number stays
  const VecF nearest = MulAdd(z, Set(kNormalTailPieces), magic);
  const VecI piece = Bits(nearest);  // in the low bits
  const VecF r = MulAdd(nearest - magic, Set(-1.0f / kNormalTailPieces), z);
  VecF tail = LookUp(kNormalTail[5], piece);
#pragma GCC unroll 5
  for (int power = 4; power >= 0; --power) {
    tail = MulAdd(tail, r, LookUp(kNormalTail[power], piece));
  }
  const VecF result = TimesNormal(x, tail);
  const VecI far = x < -kPreciseNormalTail;
  return Any(far) ? (far ? GeluErfByExp(x) : result) : result;
}

template <Epilogue kEpilogue>
inline VecF Activate(VecF sum) {
  if constexpr (kEpilogue == Epilogue::kGeluErf) return GeluErf(sum);
  if constexpr (kEpilogue == Epilogue::kGeluTanh) return GeluTanh(sum);
  if constexpr (kEpilogue == Epilogue::kSilu) return Silu(sum);
  if constexpr (kEpilogue == Epilogue::kRelu) return Max(VecF{}, sum);
  if constexpr (kEpilogue == Epilogue::kTanh) return Tanh(sum);
  return sum;
}

}  // namespace
