#include "models/weight_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "formats/memory_source.h"
#include "kernels/reference_ops.h"

namespace pergola::models {
namespace {

class WeightReaderTest : public ::testing::Test {
 protected:
  // A matrix [rows, 2] whose row r is (r, 10 r), and a bias of 100 r.
  void SetUp() override {
    std::vector<float> rows, bias;
    for (int row = 0; row < kRows; ++row) {
      rows.insert(rows.end(), {float(row), 10.0f * row});
      bias.push_back(100.0f * row);
    }
    ASSERT_TRUE(source_.AddF32("w.weight", {kRows, 2}, rows).ok());
    ASSERT_TRUE(source_.AddF32("w.bias", {kRows}, bias).ok());
    ASSERT_TRUE(source_.AddF32("weight", {kRows, 2}, rows).ok());
  }
  // The weight's first column, read through a product; with the bias.
  std::vector<float> FirstColumn(const LinearLayer& layer) {
    const std::array<float, 2> unit = {1, 0};
    std::vector<float> values(static_cast<size_t>(layer.weight->outputs()));
    ops_->Linear({unit.data(), 1, 2}, *layer.weight, layer.bias_data(), kernels::Epilogue::kNone,
                 {values.data(), 1, layer.weight->outputs()});
    return values;
  }

  static constexpr int kRows = 8;
  formats::MemorySource source_;
  std::unique_ptr<kernels::Ops> ops_ = kernels::MakeReferenceOps(1);
  WeightReader reader_{source_, *ops_, {}};
};

TEST_F(WeightReaderTest, ReadsAPartOfAFusedMatrixWithItsBias) {
  const auto layer = reader_.LinearPart("w", {3, 2, kRows}, 2, true);
  ASSERT_TRUE(layer.ok()) << layer.status().ToString();
  EXPECT_EQ(FirstColumn(*layer), (std::vector<float>{303, 404}));
}

TEST_F(WeightReaderTest, AnEmptyPrefixStandsForPlainNames) {
  const auto layer = reader_.Linear("", kRows, 2, false);
  ASSERT_TRUE(layer.ok()) << layer.status().ToString();
  EXPECT_EQ(FirstColumn(*layer)[5], 5);
  EXPECT_NE(reader_.Linear("", kRows, 2, true).status().message().find("'bias'"),
            std::string::npos);
}

TEST_F(WeightReaderTest, PutsInterleavedHeadsBack) {
  // Heads of 4 rows: the file has rows 0, 2, 1, 3 of each.
  const auto layer = reader_.LinearOfInterleavedHeads("w", kRows, 2, 4, true);
  ASSERT_TRUE(layer.ok()) << layer.status().ToString();
  EXPECT_EQ(FirstColumn(*layer), (std::vector<float>{0, 202, 101, 303, 404, 606, 505, 707}));
}

TEST_F(WeightReaderTest, TakesRowsOfTokensOrTheirDifference) {
  const std::array<int32_t, 2> ids = {6, 1};
  const auto rows = reader_.LinearOfRows("w", ids, 2, false);
  const auto difference = reader_.LinearOfRows("w", ids, 2, true);
  ASSERT_TRUE(rows.ok() && difference.ok());
  EXPECT_EQ(FirstColumn(*rows), (std::vector<float>{6, 1}));
  EXPECT_EQ(FirstColumn(*difference), std::vector<float>{5});
  const std::array<int32_t, 1> outside = {kRows};
  EXPECT_NE(reader_.LinearOfRows("w", outside, 2, false).status().message().find("no row 8"),
            std::string::npos);
}

TEST_F(WeightReaderTest, ScalesAWeight) {
  const auto layer = reader_.ScaledLinear("w", kRows, 2, 0.5f);
  ASSERT_TRUE(layer.ok()) << layer.status().ToString();
  EXPECT_EQ(FirstColumn(*layer)[6], 3);
}

TEST_F(WeightReaderTest, FindsThePrefixOfATaskModel) {
  constexpr std::array<std::string_view, 2> kPrefixes = {"model.", "w."};
  EXPECT_EQ(reader_.FindPrefix(kPrefixes, "bias"), "w.");
  EXPECT_EQ(reader_.FindPrefix(kPrefixes, "other"), "");
}

}  // namespace
}  // namespace pergola::models
