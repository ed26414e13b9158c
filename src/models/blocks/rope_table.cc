#include "models/blocks/rope_table.h"

#include <algorithm>
#include <cmath>

namespace pergola::models {
namespace {

constexpr double kHalfPi = 1.57079632679489661923;
// pi/2 in three parts; the first two have 33 bits, so their products with small integers are exact.
constexpr double kHalfPiHigh = 1.57079632673412561417e+00;
constexpr double kHalfPiMiddle = 6.07710050630396597660e-11;
constexpr double kHalfPiLow = 2.02226624879595063154e-21;
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;

// Taylor series on [-pi/4, pi/4]; the first term left out is below 2^-56.
double SinNearZero(double x) {
  const double square = x * x;
  double sum = 0;
  for (int n = 9; n >= 1; --n) sum = -square / ((2.0 * n) * (2.0 * n + 1)) * (1 + sum);
  return x + x * sum;
}

double CosNearZero(double x) {
  const double square = x * x;
  double sum = 0;
  for (int n = 9; n >= 1; --n) sum = -square / ((2.0 * n - 1) * (2.0 * n)) * (1 + sum);
  return 1 + sum;
}

// x = quadrant * pi/2 + rest with |rest| <= pi/4 (a little more by rounding).
double ReduceByHalfPi(double x, int* quadrant) {
  const double turns = std::floor(x / kHalfPi + 0.5);
  *quadrant = static_cast<int>(static_cast<int64_t>(turns) & 3);
  return ((x - turns * kHalfPiHigh) - turns * kHalfPiMiddle) - turns * kHalfPiLow;
}

// The reference library's formulas, in its order and in f32.
float Scale(float inverse_frequency, const RopeParameters& parameters) {
  const auto factor = static_cast<float>(parameters.factor);
  if (parameters.scaling == RopeScaling::kNone) return inverse_frequency;
  if (parameters.scaling == RopeScaling::kLinear) return inverse_frequency / factor;
  const auto context = static_cast<float>(parameters.original_positions);
  const auto low = static_cast<float>(parameters.low_frequency_factor);
  const auto high = static_cast<float>(parameters.high_frequency_factor);
  const float wavelength = static_cast<float>(4 * kHalfPi) / inverse_frequency;
  if (wavelength > context / low) return inverse_frequency / factor;
  if (wavelength < context / high) return inverse_frequency;
  const float smooth = (context / wavelength - low) / (high - low);
  return (1.0f - smooth) * (inverse_frequency / factor) + smooth * inverse_frequency;
}

std::vector<float> InverseFrequencies(int64_t head_width, const RopeParameters& parameters) {
  const double log_base = PortableLog(parameters.base);
  std::vector<float> frequencies;
  for (int64_t k = 0; k < head_width / 2; ++k) {
    const float exponent = static_cast<float>(2 * k) / static_cast<float>(head_width);
    const float power = static_cast<float>(PortableExp(log_base * static_cast<double>(exponent)));
    frequencies.push_back(Scale(1.0f / power, parameters));
    if (!parameters.divisors.empty()) {
      frequencies.back() /= parameters.divisors[static_cast<size_t>(k)];
    }
  }
  return frequencies;
}

// Positions that a thread takes at a time.
constexpr int64_t kChunk = 256;

}  // namespace

double PortableSin(double x) {
  int quadrant = 0;
  const double rest = ReduceByHalfPi(x, &quadrant);
  switch (quadrant) {
    case 0:
      return SinNearZero(rest);
    case 1:
      return CosNearZero(rest);
    case 2:
      return -SinNearZero(rest);
    default:
      return -CosNearZero(rest);
  }
}

double PortableCos(double x) {
  int quadrant = 0;
  const double rest = ReduceByHalfPi(x, &quadrant);
  switch (quadrant) {
    case 0:
      return CosNearZero(rest);
    case 1:
      return -SinNearZero(rest);
    case 2:
      return -CosNearZero(rest);
    default:
      return SinNearZero(rest);
  }
}

double PortableExp(double x) {
  const double power = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double rest = (x - power * kLn2High) - power * kLn2Low;
  double sum = 0;
  for (int n = 14; n >= 1; --n) sum = rest / n * (1 + sum);
  return std::ldexp(1 + sum, static_cast<int>(power));
}

double PortableLog(double x) {
  int power = 0;
  double mantissa = std::frexp(x, &power);  // [0.5, 1)
  if (mantissa < 0.70710678118654752440) {
    mantissa *= 2;
    --power;
  }
  // log m = 2 atanh((m - 1) / (m + 1)); |ratio| <= 0.172.
  const double ratio = (mantissa - 1) / (mantissa + 1);
  const double square = ratio * ratio;
  double sum = 0;
  for (int n = 23; n >= 3; n -= 2) sum = square * (1.0 / n + sum);
  return power * kLn2High + (2 * ratio * (1 + sum) + power * kLn2Low);
}

std::vector<float> MakeRopeTable(ThreadPool& threads, int64_t positions, int64_t head_width,
                                 const RopeParameters& parameters) {
  const std::vector<float> frequencies = InverseFrequencies(head_width, parameters);
  const auto half = static_cast<int64_t>(frequencies.size());
  std::vector<float> table(static_cast<size_t>(positions * head_width));
  threads.ParallelFor((positions + kChunk - 1) / kChunk, [&](int64_t chunk) {
    const int64_t end = std::min(positions, (chunk + 1) * kChunk);
    for (int64_t position = chunk * kChunk; position < end; ++position) {
      float* row = table.data() + position * head_width;
      for (int64_t k = 0; k < half; ++k) {
        const float angle = static_cast<float>(position) * frequencies[static_cast<size_t>(k)];
        row[k] = static_cast<float>(PortableCos(static_cast<double>(angle)));
        row[half + k] = static_cast<float>(PortableSin(static_cast<double>(angle)));
      }
    }
  });
  return table;
}

}  // namespace pergola::models
