// The operations that work row by row (norms, activations, rotation, gather, pooling) of every
// kernel set against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/testing/numeric_matcher.h"
#include "kernels/testing/kernel_sets.h"
#include "kernels/testing/random_tensors.h"

namespace pergola::kernels {
namespace {

using pergola::testing::BitEqual;
using pergola::testing::kEpsilon;
using pergola::testing::Within;
using testing::OwnedMatrix;
using testing::OwnedTensor;
using testing::Random;

constexpr int64_t kWidths[] = {1, 2, 3, 12, 16, 17, 31, 64, 65, 384, 1000};

class RowwiseConformanceTest : public testing::KernelSetTest {
 protected:
  // Errors relative to the largest value of the expected row and to 1, `ulps` of them.
  static void ExpectClose(const OwnedMatrix& actual, const OwnedMatrix& expected, double ulps) {
    EXPECT_TRUE(Within(actual.view(), expected.view(), [&](int64_t row, int64_t) {
      double largest = 1;
      for (int64_t col = 0; col < expected.view().cols; ++col) {
        largest = std::max(largest, std::abs(static_cast<double>(expected.view().row(row)[col])));
      }
      return ulps * kEpsilon * largest;
    }));
    EXPECT_TRUE(actual.MarkersIntact());
  }

  std::unique_ptr<Ops> set_ = MakeSet(2);
  std::unique_ptr<Ops> oracle_ = MakeOracle();
};

INSTANTIATE_TEST_SUITE_P(PerIsa, RowwiseConformanceTest, ::testing::ValuesIn(testing::TestedSets()),
                         testing::SetName);

TEST_P(RowwiseConformanceTest, LayerNorm) {
  Random random(1);
  for (int64_t width : kWidths) {
    const OwnedMatrix x = OwnedMatrix::Of(random, 5, width, width + 3);
    const std::vector<float> weight = random.Values(width), bias = random.Values(width);
    for (const float* used_bias : {static_cast<const float*>(nullptr), bias.data()}) {
      OwnedMatrix actual(5, width, width + 1), expected(5, width);
      set_->LayerNorm(x.view(), weight.data(), used_bias, 1e-5f, actual.view());
      oracle_->LayerNorm(x.view(), weight.data(), used_bias, 1e-5f, expected.view());
      ExpectClose(actual, expected, width == 1 ? 4 : 16);
      OwnedMatrix in_place = OwnedMatrix::Copy(x.view(), width + 1);
      set_->LayerNorm(in_place.view(), weight.data(), used_bias, 1e-5f, in_place.view());
      EXPECT_TRUE(BitEqual(in_place.view(), actual.view()));
    }
  }
}

TEST_P(RowwiseConformanceTest, RmsNormOfRowsAndOfHeads) {
  Random random(2);
  for (int64_t width : kWidths) {
    for (int64_t groups : {1, 3}) {
      const int64_t cols = width * groups;
      const OwnedMatrix x = OwnedMatrix::Of(random, 5, cols, cols + 3);
      const std::vector<float> weight = random.Values(width);
      OwnedMatrix actual(5, cols, cols + 1), expected(5, cols);
      set_->RmsNorm(x.view(), weight.data(), width, 1e-6f, actual.view());
      oracle_->RmsNorm(x.view(), weight.data(), width, 1e-6f, expected.view());
      ExpectClose(actual, expected, 16);
      OwnedMatrix in_place = OwnedMatrix::Copy(x.view(), cols + 1);
      set_->RmsNorm(in_place.view(), weight.data(), width, 1e-6f, in_place.view());
      EXPECT_TRUE(BitEqual(in_place.view(), actual.view()));
    }
  }
}

TEST_P(RowwiseConformanceTest, RmsNormAddAndAdd) {
  Random random(3);
  for (int64_t width : kWidths) {
    const OwnedMatrix x = OwnedMatrix::Of(random, 5, width, width + 3);
    const std::vector<float> weight = random.Values(width);
    OwnedMatrix actual = OwnedMatrix::Of(random, 5, width, width + 1);
    OwnedMatrix expected = OwnedMatrix::Copy(actual.view());
    set_->RmsNormAdd(x.view(), weight.data(), 1e-6f, actual.view());
    oracle_->RmsNormAdd(x.view(), weight.data(), 1e-6f, expected.view());
    ExpectClose(actual, expected, 16);
    OwnedMatrix sum = OwnedMatrix::Copy(actual.view(), width + 1);
    OwnedMatrix expected_sum = OwnedMatrix::Copy(actual.view());
    set_->Add(x.view(), sum.view());
    oracle_->Add(x.view(), expected_sum.view());
    EXPECT_TRUE(BitEqual(sum.view(), expected_sum.view()));
    EXPECT_TRUE(sum.MarkersIntact());
  }
}

// Large offsets and magnitudes as in real residual streams; epsilon matters in the last row.
TEST_P(RowwiseConformanceTest, NormsOfExtremeRows) {
  Random random(4);
  OwnedMatrix x = OwnedMatrix::Of(random, 3, 768);
  for (int64_t col = 0; col < 768; ++col) {
    x.view().row(0)[col] = x.view().row(0)[col] * 9.0e4f;
    x.view().row(1)[col] = x.view().row(1)[col] + 30.0f;
    x.view().row(2)[col] = x.view().row(2)[col] * 1e-4f;
  }
  const std::vector<float> weight(768, 1.0f);
  OwnedMatrix actual(3, 768), expected(3, 768);
  set_->RmsNorm(x.view(), weight.data(), 768, 1e-6f, actual.view());
  oracle_->RmsNorm(x.view(), weight.data(), 768, 1e-6f, expected.view());
  ExpectClose(actual, expected, 16);
  set_->LayerNorm(x.view(), weight.data(), nullptr, 1e-12f, actual.view());
  oracle_->LayerNorm(x.view(), weight.data(), nullptr, 1e-12f, expected.view());
  // The mean of values around 30 is off by an ulp of 30, which the small variance (1/6) magnifies.
  ExpectClose(actual, expected, 30 * std::sqrt(6.0) * 4);
}

// Values from subnormal to overflow on both sides, and a dense sweep of where the functions bend.
std::vector<float> ActivationInputs() {
  std::vector<float> values = {0.0f,  -0.0f,  1e-40f, -1e-40f, 1e-20f, -1e-20f,
                               88.0f, -88.0f, 1e4f,   -1e4f,   3e38f,  -3e38f};
  for (int i = -8000; i <= 8000; ++i) values.push_back(static_cast<float>(i) * 0.00203f);
  return values;
}

// The errors that docs/numerics.md states: relative to the result, or to the smallest normal
// number; below -5 the exact result of a GELU loses digits to the argument's own rounding.
TEST_P(RowwiseConformanceTest, ActivationsKeepTheirStatedError) {
  const std::vector<float> inputs = ActivationInputs();
  const int64_t count = static_cast<int64_t>(inputs.size());
  const std::vector<float> ones(inputs.size(), 1.0f);
  struct Stated {
    Epilogue activation;
    double ulps;
  };
  for (const Stated& stated :
       {Stated{Epilogue::kRelu, 0}, Stated{Epilogue::kSilu, 4}, Stated{Epilogue::kTanh, 4},
        Stated{Epilogue::kGeluTanh, 8}, Stated{Epilogue::kGeluErf, 8}}) {
    SCOPED_TRACE(static_cast<int>(stated.activation));
    OwnedMatrix actual = OwnedMatrix::Copy({inputs.data(), 1, count});
    OwnedMatrix expected = OwnedMatrix::Copy({inputs.data(), 1, count});
    set_->GatedActivation(stated.activation, actual.view(), {ones.data(), 1, count});
    oracle_->GatedActivation(stated.activation, expected.view(), {ones.data(), 1, count});
    EXPECT_TRUE(Within(actual.view(), expected.view(), [&](int64_t, int64_t col) {
      const double x = inputs[static_cast<size_t>(col)];
      const double want = std::abs(static_cast<double>(expected.view().row(0)[col]));
      // In the tail e^-y y itself carries roundings; below e^-87 a result may be flushed to zero.
      const double argument = want > 0 ? std::max(0.0, -std::log(want / std::abs(x))) : 0;
      return (stated.ulps + 2 * argument) * kEpsilon * want + std::abs(x) * 1.3e-38 + 1e-44;
    }));
  }
}

TEST_P(RowwiseConformanceTest, GatedActivationMultipliesRowByRow) {
  Random random(5);
  for (int64_t width : kWidths) {
    const OwnedMatrix up = OwnedMatrix::Of(random, 4, width, width + 2);
    OwnedMatrix actual = OwnedMatrix::Of(random, 4, width, width + 1);
    OwnedMatrix expected = OwnedMatrix::Copy(actual.view());
    set_->GatedActivation(Epilogue::kGeluTanh, actual.view(), up.view());
    oracle_->GatedActivation(Epilogue::kGeluTanh, expected.view(), up.view());
    ExpectClose(actual, expected, 4);
  }
}

TEST_P(RowwiseConformanceTest, RopeRotatesHalves) {
  Random random(6);
  for (int64_t head_width : {2, 12, 16, 24, 32, 64, 256}) {
    std::vector<float> cos_sin;
    for (int64_t position = 0; position < 40; ++position) {
      std::vector<float> sines;
      for (int64_t i = 0; i < head_width / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(1e4, -2.0 * static_cast<double>(i) / head_width);
        cos_sin.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
      cos_sin.insert(cos_sin.end(), sines.begin(), sines.end());
    }
    const std::vector<int32_t> positions = {0, 1, 39, 7, 7};
    OwnedMatrix actual = OwnedMatrix::Of(random, 5, 3 * head_width, 3 * head_width + 1);
    OwnedMatrix expected = OwnedMatrix::Copy(actual.view());
    set_->Rope(actual.view(), head_width, cos_sin.data(), positions);
    oracle_->Rope(expected.view(), head_width, cos_sin.data(), positions);
    ExpectClose(actual, expected, 2);
  }
}

TEST_P(RowwiseConformanceTest, GatherOfEveryType) {
  Random random(7);
  const std::vector<int32_t> ids = {3, 0, 3, 10, 1};
  for (int index = 0; index < kNumDTypes; ++index) {
    const DType dtype = static_cast<DType>(index);
    if (dtype == DType::kI8 || dtype == DType::kI32) continue;
    SCOPED_TRACE(DTypeName(dtype));
    const OwnedTensor table(random, dtype, 11, 512);
    for (bool accumulate : {false, true}) {
      OwnedMatrix actual = OwnedMatrix::Of(random, 5, 512, 515);
      OwnedMatrix expected = OwnedMatrix::Copy(actual.view());
      set_->Gather(table.view(), ids, 27.712812f, accumulate, actual.view());
      oracle_->Gather(table.view(), ids, 27.712812f, accumulate, expected.view());
      EXPECT_TRUE(BitEqual(actual.view(), expected.view()));
      EXPECT_TRUE(actual.MarkersIntact());
    }
  }
}

// Mapped files promise no alignment.
TEST_P(RowwiseConformanceTest, GatherReadsUnalignedTables) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<std::byte> bytes(values.size() * 4 + 1);
  std::memcpy(bytes.data() + 1, values.data(), values.size() * 4);
  const TensorView table{bytes.data() + 1, DType::kF32, {2, 3}};
  OwnedMatrix y(1, 3);
  const std::vector<int32_t> ids = {1};
  set_->Gather(table, ids, 1.0f, false, y.view());
  EXPECT_TRUE(BitEqual(y.view(), ConstF32Matrix(values.data() + 3, 1, 3)));
}

TEST_P(RowwiseConformanceTest, PoolOfEveryKind) {
  Random random(8);
  const std::vector<int32_t> cu_seqlens = {0, 1, 4, 40, 45};
  for (int64_t width : kWidths) {
    const OwnedMatrix x = OwnedMatrix::Of(random, 45, width, width + 3);
    for (PoolingKind kind : {PoolingKind::kMean, PoolingKind::kCls, PoolingKind::kLastToken}) {
      OwnedMatrix actual(4, width, width + 1), expected(4, width);
      set_->Pool(x.view(), {cu_seqlens}, kind, actual.view());
      oracle_->Pool(x.view(), {cu_seqlens}, kind, expected.view());
      ExpectClose(actual, expected, kind == PoolingKind::kMean ? 8 : 0);
    }
  }
}

}  // namespace
}  // namespace pergola::kernels
