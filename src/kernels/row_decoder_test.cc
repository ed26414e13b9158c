#include "kernels/row_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kernels/checksum.h"
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

// Rows of random ids, several times each.
void ExpectDecoded(const TensorView& table) {
  const std::vector<int32_t> ids = {4, 0, 2, 4, 1, 3, 3};
  const auto cols = static_cast<size_t>(table.cols());
  std::vector<float> expected;
  for (const int32_t id : ids) {
    const std::vector<float> row = Expected(table, id);
    expected.insert(expected.end(), row.begin(), row.end());
  }
  std::vector<float> actual(ids.size() * cols);
  const std::string before = "before";
  uint32_t crc = Crc32c(std::as_bytes(std::span(before)));
  const uint32_t expected_crc = Crc32c(std::as_bytes(std::span(expected)), crc);
  EXPECT_EQ(DecodeRows(table, ids, kScale, actual.data(), &crc), ids.size());
  EXPECT_EQ(actual, expected) << DTypeName(table.dtype) << " " << cols;
  EXPECT_EQ(crc, expected_crc) << DTypeName(table.dtype) << " " << cols;
}

TEST(RowDecoderTest, EqualsDequantisedAndScaledRows) {
  Random random(1);
  for (DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ6_K}) {
    for (int64_t cols : {256, 1280}) ExpectDecoded(OwnedTensor(random, dtype, 5, cols).view());
  }
  for (int64_t cols : {32, 96}) ExpectDecoded(OwnedTensor(random, DType::kQ8_0, 5, cols).view());
}

TEST(RowDecoderTest, TakesWidthsThatAreNoWholeNumberOfVectors) {
  Random random(2);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t cols : {1, 3, 15, 17, 33, 63, 65, 127, 130, 199}) {
      ExpectDecoded(OwnedTensor(random, dtype, 5, cols).view());
    }
  }
}

// In whatever place of a row: in the checksum's stretches, and behind them.
TEST(RowDecoderTest, StopsAtARowThatIsNotFinite) {
  constexpr size_t kCols = 200;
  for (const size_t place : {0u, 70u, 191u, 192u, 199u}) {
    std::vector<float> values(5 * kCols, 1.5f);
    values[3 * kCols + place] = place == 70 ? std::numeric_limits<float>::quiet_NaN()
                                            : -std::numeric_limits<float>::infinity();
    TensorView table;
    table.data = reinterpret_cast<const std::byte*>(values.data());
    table.dtype = DType::kF32;
    table.shape = Shape{5, kCols};
    const std::vector<int32_t> ids = {0, 4, 3, 1};
    std::vector<float> actual(ids.size() * kCols);
    uint32_t crc = 0;
    EXPECT_EQ(DecodeRows(table, ids, 1, actual.data(), &crc), 2u) << place;
    EXPECT_EQ(crc, Crc32c(std::as_bytes(std::span(actual).first(2 * kCols)))) << place;
  }
}

// Rows so wide that a few are a part: any number of parts, of rows that are no whole number of
// vectors, and of threads.
class SharedRowDecoderTest : public ::testing::Test {
 protected:
  static constexpr int64_t kCols = 32769;

  static std::vector<int32_t> Ids(size_t count) {
    std::vector<int32_t> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(i * 3 % 4);
    return ids;
  }

  // With as many rows before that are finite, the bits and the checksum of one thread.
  void ExpectShared(const TensorView& table, const std::vector<int32_t>& ids) {
    const auto cols = static_cast<size_t>(table.cols());
    std::vector<float> alone(ids.size() * cols), shared(ids.size() * cols, -1.0f);
    uint32_t alone_crc = 77, shared_crc = 77;
    const size_t good = DecodeRows(table, ids, kScale, alone.data(), &alone_crc);
    EXPECT_EQ(DecodeRows(threads_, table, ids, kScale, shared.data(), &shared_crc), good);
    EXPECT_EQ(shared_crc, alone_crc) << ids.size() << " rows";
    shared.resize(good * cols);
    alone.resize(good * cols);
    EXPECT_TRUE(shared == alone) << ids.size() << " rows";
  }

  ThreadPool threads_{3};
};

TEST_F(SharedRowDecoderTest, GivesTheBitsOfOneThread) {
  Random random(5);
  const OwnedTensor halves(random, DType::kF16, 4, kCols);
  for (size_t rows = 1; rows <= 40; ++rows) ExpectShared(halves.view(), Ids(rows));
  const OwnedTensor blocks(random, DType::kQ8_0, 4, 65536);
  for (const size_t rows : {1u, 2u, 7u, 20u}) ExpectShared(blocks.view(), Ids(rows));
  const OwnedTensor narrow(random, DType::kBF16, 4, 3);
  uint32_t crc = 5;
  EXPECT_EQ(DecodeRows(threads_, narrow.view(), {}, kScale, nullptr, &crc), 0u);
  EXPECT_EQ(crc, 5u);
  ExpectShared(narrow.view(), Ids(9));
}

// More than there are parts at most.
TEST_F(SharedRowDecoderTest, SplitsManyRowsEvenly) {
  Random random(6);
  ExpectShared(OwnedTensor(random, DType::kF32, 4, kCols).view(), Ids(303));
}

TEST_F(SharedRowDecoderTest, CountsTheRowsBeforeTheFirstThatIsNotFinite) {
  std::vector<float> values(size_t{5} * kCols);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1021) - 500;
  values.back() = -std::numeric_limits<float>::infinity();
  TensorView table;
  table.data = reinterpret_cast<const std::byte*>(values.data());
  table.dtype = DType::kF32;
  table.shape = Shape{5, kCols};
  constexpr size_t kRows = 15;
  for (size_t bad = 0; bad < kRows; ++bad) {
    std::vector<int32_t> ids = Ids(kRows);
    ids[bad] = 4;
    ExpectShared(table, ids);
    ids.back() = 4;  // and another in the last part
    ExpectShared(table, ids);
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
