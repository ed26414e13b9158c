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
  const int64_t width = 24;
  const std::vector<float> table = MakeRopeTable(100, width, 1e4);
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

}  // namespace
}  // namespace pergola::models
