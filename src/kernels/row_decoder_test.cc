#include "kernels/row_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/dequantise.h"
#include "kernels/testing/kernel_sets.h"
#include "kernels/testing/random_tensors.h"

namespace pergola::kernels {
namespace {

using testing::OwnedMatrix;
using testing::OwnedTensor;
using testing::Random;

constexpr float kScale = 25.25f;

std::vector<float> Expected(const TensorView& table, int64_t row) {
  std::vector<float> values(static_cast<size_t>(table.cols()));
  DequantiseRow(table.dtype, table.row(row), table.cols(), values.data());
  for (float& value : values) value *= kScale;
  return values;
}

TEST(RowDecoderTest, EqualsDequantisedAndScaledRows) {
  Random random(1);
  for (DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ6_K}) {
    for (int64_t cols : {256, 1280}) {
      const OwnedTensor table(random, dtype, 5, cols);
      for (int64_t row = 0; row < 5; ++row) {
        std::vector<float> actual(static_cast<size_t>(cols));
        DecodeRow(table.view(), row, kScale, actual.data());
        EXPECT_EQ(actual, Expected(table.view(), row)) << DTypeName(dtype);
      }
    }
  }
}

TEST(RowDecoderTest, TakesWidthsThatAreNoWholeNumberOfVectors) {
  Random random(2);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t cols : {1, 3, 15, 17, 33}) {
      const OwnedTensor table(random, dtype, 2, cols);
      std::vector<float> actual(static_cast<size_t>(cols));
      DecodeRow(table.view(), 1, kScale, actual.data());  // the last bytes there are
      EXPECT_EQ(actual, Expected(table.view(), 1)) << DTypeName(dtype) << " " << cols;
    }
  }
}

class RowDecoderPerSetTest : public testing::KernelSetTest {};

INSTANTIATE_TEST_SUITE_P(PerIsa, RowDecoderPerSetTest, ::testing::ValuesIn(testing::TestedSets()),
                         testing::SetName);

TEST_P(RowDecoderPerSetTest, GatherGivesTheSameBits) {
  Random random(3);
  const std::vector<int32_t> ids = {4, 0, 2, 4};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
    const OwnedTensor table(random, dtype, 5, 96);
    OwnedMatrix gathered(4, 96);
    MakeSet(2)->Gather(table.view(), ids, kScale, /*accumulate=*/false, gathered.view());
    for (size_t i = 0; i < ids.size(); ++i) {
      const float* row = gathered.view().row(static_cast<int64_t>(i));
      EXPECT_EQ(std::vector<float>(row, row + 96), Expected(table.view(), ids[i]));
    }
  }
}

}  // namespace
}  // namespace pergola::kernels
