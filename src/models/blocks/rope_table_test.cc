#include "models/blocks/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pergola::models {
namespace {

TEST(PortableMathTest, AgreesWithLibm) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> angles(-1e5, 1e5);
  std::uniform_real_distribution<double> exponents(-700, 700);
  for (int trial = 0; trial < 20000; ++trial) {
    const double angle = trial == 0 ? 0 : angles(random);
    // The argument itself is known to half an ulp: 1e5 * 2^-53 = 1.1e-11; far below f32.
    EXPECT_NEAR(PortableSin(angle), std::sin(angle), 4e-16 + std::abs(angle) * 2e-17) << angle;
    EXPECT_NEAR(PortableCos(angle), std::cos(angle), 4e-16 + std::abs(angle) * 2e-17) << angle;
    const double exponent = exponents(random);
    EXPECT_NEAR(PortableExp(exponent) / std::exp(exponent), 1, 1e-15) << exponent;
    const double positive = std::exp(exponent);
    EXPECT_NEAR(PortableLog(positive), exponent, 4e-16 * std::max(1.0, std::abs(exponent)));
  }
}

TEST(RopeTableTest, FirstRowIsTheIdentityAndColumnsAreUnitLength) {
  ThreadPool threads(2);
  const int64_t width = 24;
  const std::vector<float> table = MakeRopeTable(threads, 100, width, {.base = 1e4});
  for (int64_t k = 0; k < width / 2; ++k) {
    EXPECT_EQ(table[k], 1.0f);
    EXPECT_EQ(table[width / 2 + k], 0.0f);
    for (int64_t position = 0; position < 100; ++position) {
      const double cosine = table[position * width + k];
      const double sine = table[position * width + width / 2 + k];
      EXPECT_NEAR(cosine * cosine + sine * sine, 1, 3e-7);
    }
  }
  // Frequency 0 is one radian a position.
  EXPECT_NEAR(table[3 * width], std::cos(3.0), 1e-7);
}

// Values of the reference library's llama3 rule for W = 16, base 1e4, factor 8, 1 and 4, context
// 128 (inverse frequencies; the rest of the table is cosines and sines of multiples).
TEST(RopeTableTest, ScalesLongWavelengthsAsLlama3Does) {
  ThreadPool threads(2);
  const RopeParameters parameters{.base = 1e4,
                                  .scaling = RopeScaling::kLlama3,
                                  .factor = 8,
                                  .low_frequency_factor = 1,
                                  .high_frequency_factor = 4,
                                  .original_positions = 128};
  const std::vector<float> expected = {
      1.0f,           0.316227764f,    0.0427511781f,   0.00395284733f,
      0.00124999997f, 0.000395284733f, 0.000125000006f, 3.95284733e-05f};
  const std::vector<float> table = MakeRopeTable(threads, 2, 16, parameters);
  for (size_t k = 0; k < expected.size(); ++k) {
    EXPECT_NEAR(table[16 + 8 + k], std::sin(expected[k]), 1e-7) << k;
  }
}

TEST(RopeTableTest, DividesFrequencies) {
  ThreadPool threads(2);
  const RopeParameters linear{.base = 1e4, .scaling = RopeScaling::kLinear, .factor = 4};
  const RopeParameters divided{.base = 1e4, .divisors = std::vector<float>(8, 4.0f)};
  const std::vector<float> plain = MakeRopeTable(threads, 5, 16, {.base = 1e4});
  for (const RopeParameters& parameters : {linear, divided}) {
    const std::vector<float> table = MakeRopeTable(threads, 17, 16, parameters);
    for (size_t k = 0; k < 16; ++k) EXPECT_EQ(table[16 * 16 + k], plain[4 * 16 + k]) << k;
  }
}

}  // namespace
}  // namespace pergola::models
