// Ops::Linear and PrepareLinear of every kernel set against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/testing/numeric_matcher.h"
#include "kernels/converted_weight.h"
#include "kernels/cpu/rotation.h"
#include "kernels/dequantise.h"
#include "kernels/testing/kernel_sets.h"
#include "kernels/testing/random_tensors.h"

namespace pergola::kernels {
namespace {

using pergola::testing::DotProductBound;
using pergola::testing::kEpsilon;
using pergola::testing::Norm;
using pergola::testing::Within;
using testing::OwnedMatrix;
using testing::OwnedTensor;
using testing::Random;

constexpr DType kLinearTypes[] = {DType::kF32,  DType::kF16,   DType::kBF16, DType::kQ8_0,
                                  DType::kQ4_0, DType::kQ4_1,  DType::kQ5_0, DType::kQ5_1,
                                  DType::kQ2_K, DType::kQ3_K,  DType::kQ4_K, DType::kQ5_K,
                                  DType::kQ6_K, DType::kIQ4_NL};

std::vector<double> RowNorms(const TensorView& weight) {
  std::vector<double> norms;
  std::vector<float> row(static_cast<size_t>(weight.cols()));
  for (int64_t n = 0; n < weight.rows(); ++n) {
    DequantiseRow(weight.dtype, weight.row(n), weight.cols(), row.data());
    norms.push_back(Norm(row.data(), weight.cols()));
  }
  return norms;
}

// Norm of what rounding rotated values to bytes takes from a row, at most: half a step of a block's
// largest value / 127 in each of its values. Rotating back divides the norm by sqrt(128).
double RotatedRoundingBound(const float* x, int64_t inputs) {
  std::vector<float> values(x, x + inputs);
  for (int64_t i = 0; i < inputs; i += cpu::kRotatedBlock) cpu::RotateBlock(values.data() + i);
  double square = 0;
  for (int64_t i = 0; i < inputs; i += cpu::kScaledBlock) {
    float largest = 0;
    for (int64_t k = i; k < i + cpu::kScaledBlock; ++k) {
      largest = std::max(largest, std::abs(values[static_cast<size_t>(k)]));
    }
    square += cpu::kScaledBlock * std::pow(static_cast<double>(largest) / 127 / 2, 2);
  }
  return std::sqrt(square / cpu::kRotatedBlock);
}

std::vector<double> RotatedRounding(const TensorView& weight) {
  std::vector<double> bounds;
  std::vector<float> row(static_cast<size_t>(weight.cols()));
  for (int64_t n = 0; n < weight.rows(); ++n) {
    DequantiseRow(weight.dtype, weight.row(n), weight.cols(), row.data());
    bounds.push_back(RotatedRoundingBound(row.data(), weight.cols()));
  }
  return bounds;
}

// How a class of products rounds activations: of "q4_0 x i16-row (i8-block before up), avx2"
// one or the other.
std::string RowsOf(const std::string& numeric_class, LinearRole role) {
  const size_t bracket = numeric_class.find(" (");
  if (bracket == std::string::npos) return numeric_class;
  return role == LinearRole::kUp ? numeric_class.substr(bracket) : numeric_class.substr(0, bracket);
}

// Norm of what rounding takes from a row of activations, at most.
double RoundingBound(const std::string& rows, const float* x, int64_t inputs) {
  const auto is = [&](const char* name) { return rows.find(name) != std::string::npos; };
  const auto largest_of = [&](int64_t begin, int64_t end) {
    float largest = 0;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
    return static_cast<double>(largest);
  };
  // Half a step of the largest value / 32767 or 127.
  if (is("i16-row")) return largest_of(0, inputs) / 32767 / 2 * std::sqrt(double(inputs));
  if (is("i8-block")) {
    double square = 0;
    for (int64_t block = 0; block < inputs; block += 32) {
      square += 32 * std::pow(largest_of(block, block + 32) / 127 / 2, 2);
    }
    return std::sqrt(square);
  }
  if (is("i8-rotated")) return RotatedRoundingBound(x, inputs);
  if (is("bf16-row")) return Norm(x, inputs) / 256;  // half a step of seven bits and a hidden one
  return 0;
}

// Slope of the steepest epilogue, which stretches errors of the sum.
constexpr double kMaxSlope = 1.13;

struct LinearCase {
  int64_t rows, outputs, inputs;
  Epilogue epilogue = Epilogue::kNone;
  bool with_bias = false;
  int64_t padding = 0;  // of the strides
  ActivationPrecision activations = ActivationPrecision::kAuto;
  LinearRole role = LinearRole::kOther;
  WeightType weights = WeightType::kAsIs;
  bool in_place = false;
};

class LinearConformanceTest : public testing::KernelSetTest {
 protected:
  void Check(DType dtype, const LinearCase& c) {
    SCOPED_TRACE(std::string(DTypeName(dtype)) + " T " + std::to_string(c.rows) + " N " +
                 std::to_string(c.outputs) + " K " + std::to_string(c.inputs) + " epilogue " +
                 std::to_string(static_cast<int>(c.epilogue)));
    Random random(static_cast<uint32_t>(c.rows * 31 + c.outputs * 7 + c.inputs));
    const OwnedTensor weight(random, dtype, c.outputs, c.inputs);
    const OwnedMatrix x = OwnedMatrix::Of(random, c.rows, c.inputs, c.inputs + c.padding);
    const std::vector<float> bias = random.Values(c.outputs);
    OwnedMatrix actual = OwnedMatrix::Of(random, c.rows, c.outputs, c.outputs + c.padding);
    OwnedMatrix expected = OwnedMatrix::Copy(actual.view());

    const LinearOptions options{
        .activations = c.activations, .role = c.role, .in_place = c.in_place, .weights = c.weights};
    auto prepared = set_->PrepareLinear(weight.view(), options);
    // Rotated weights are rounded by the set alone: there the stored ones are the truth.
    const bool rotated = prepared.ok() && (*prepared)->dtype() == DType::kI8;
    const WeightType truth = rotated ? WeightType::kAsIs : c.weights;
    LinearOptions oracle_options = options;
    oracle_options.weights = truth;
    auto oracle_prepared = oracle_->PrepareLinear(weight.view(), oracle_options);
    ASSERT_TRUE(prepared.ok()) << prepared.status().ToString();
    ASSERT_TRUE(oracle_prepared.ok());
    EXPECT_EQ((*prepared)->outputs(), c.outputs);
    EXPECT_EQ((*prepared)->inputs(), c.inputs);
    if (!rotated) {
      EXPECT_EQ((*prepared)->dtype(), ComputedType(c.weights, dtype, c.inputs));
    }
    const float* used_bias = c.with_bias ? bias.data() : nullptr;
    set_->Linear(x.view(), **prepared, used_bias, c.epilogue, actual.view());
    oracle_->Linear(x.view(), **oracle_prepared, used_bias, c.epilogue, expected.view());

    std::string rows = RowsOf(set_->numeric_class(dtype, options), c.role);
    // The class is that of whole blocks; other rows are not rotated.
    if (!rotated && rows.find("i8-rotated") != std::string::npos) rows = "i16-row";
    // Of what is multiplied: converting rounds the weights of both sides alike.
    const ConvertedWeight converted(weight.view(), truth);
    const std::vector<double> norms = RowNorms(converted.view());
    const std::vector<double> rounding =
        rotated ? RotatedRounding(weight.view()) : std::vector<double>(norms.size());
    EXPECT_TRUE(Within(actual.view(), expected.view(), [&](int64_t row, int64_t col) {
      const double weight_norm = norms[static_cast<size_t>(col)];
      const double row_norm = Norm(x.view().row(row), c.inputs);
      const double row_rounding = RoundingBound(rows, x.view().row(row), c.inputs);
      double bound = DotProductBound(c.inputs, row_norm, weight_norm);
      bound += row_rounding * weight_norm;
      bound += rounding[static_cast<size_t>(col)] * (row_norm + row_rounding);
      return kMaxSlope * bound + 8 * kEpsilon * (2 + std::abs(expected.view().row(row)[col]));
    }));
    EXPECT_TRUE(actual.MarkersIntact());
  }

  std::unique_ptr<Ops> set_ = MakeSet(2);
  std::unique_ptr<Ops> oracle_ = MakeOracle();
};

INSTANTIATE_TEST_SUITE_P(PerIsa, LinearConformanceTest, ::testing::ValuesIn(testing::TestedSets()),
                         testing::SetName);

TEST_P(LinearConformanceTest, EveryTypeAndRowCount) {
  for (DType dtype : kLinearTypes) {
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 25, 97}) {
      Check(dtype, {.rows = rows, .outputs = 50, .inputs = 256});
    }
  }
  for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25, 97}) {
    Check(DType::kQ4_0, {.rows = rows, .outputs = 150, .inputs = 256, .role = LinearRole::kUp});
  }
}

// Several K blocks, a last one that is shorter, and panels that are mostly padding.
TEST_P(LinearConformanceTest, DeepAndNarrowProducts) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
    for (int64_t rows : {1, 3, 20}) {
      Check(dtype, {.rows = rows, .outputs = 1, .inputs = 3072});
      Check(dtype, {.rows = rows, .outputs = 17, .inputs = 1152});
      Check(dtype, {.rows = rows, .outputs = 160, .inputs = 800});
      Check(dtype, {.rows = rows, .outputs = 33, .inputs = 32});
    }
  }
  for (DType dtype : {DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    for (int64_t rows : {1, 3, 20}) {
      Check(dtype, {.rows = rows, .outputs = 1, .inputs = 3072});
      Check(dtype, {.rows = rows, .outputs = 161, .inputs = 768});
    }
  }
  for (DType dtype : {DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kIQ4_NL}) {
    for (int64_t rows : {1, 3, 20}) {
      Check(dtype, {.rows = rows, .outputs = 160, .inputs = 800});
      Check(dtype, {.rows = rows, .outputs = 33, .inputs = 32});
    }
  }
  for (int64_t rows : {1, 3, 30}) {
    Check(DType::kQ4_0, {.rows = rows, .outputs = 17, .inputs = 3072, .role = LinearRole::kUp});
    Check(DType::kQ4_0, {.rows = rows, .outputs = 33, .inputs = 32, .role = LinearRole::kUp});
  }
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t inputs : {1, 2, 7, 257, 1001}) {
      Check(dtype, {.rows = 8, .outputs = 30, .inputs = inputs});
    }
  }
}

TEST_P(LinearConformanceTest, EveryEpilogueWithBiasAndStrides) {
  for (DType dtype : {DType::kF32, DType::kQ8_0}) {
    for (Epilogue epilogue : {Epilogue::kNone, Epilogue::kGeluErf, Epilogue::kGeluTanh,
                              Epilogue::kSilu, Epilogue::kRelu, Epilogue::kTanh, Epilogue::kAdd}) {
      for (bool with_bias : {false, true}) {
        Check(dtype, {.rows = 14,
                      .outputs = 37,
                      .inputs = 96,
                      .epilogue = epilogue,
                      .with_bias = with_bias,
                      .padding = 5});
      }
    }
  }
}

// Up to the last role that the model bears them in, rows are rounded as before an up projection,
// beyond it as before any other product.
TEST_P(LinearConformanceTest, RolesUpToTheLastAreRoundedAlike) {
  Random random(12);
  const OwnedTensor weight(random, DType::kQ4_0, 40, 256);
  const OwnedMatrix x = OwnedMatrix::Of(random, 5, 256);
  const auto product = [&](LinearRole role, LinearRole narrow_to) {
    auto prepared =
        set_->PrepareLinear(weight.view(), {.role = role, .narrow_to = narrow_to}).value();
    OwnedMatrix y(5, 40);
    set_->Linear(x.view(), *prepared, nullptr, Epilogue::kNone, y.view());
    return std::vector<float>(y.view().data, y.view().data + 5 * 40);
  };
  using enum LinearRole;
  const std::vector<float> wide = product(kOther, kGate), narrow = product(kUp, kUp);
  const std::string up = set_->numeric_class(DType::kQ4_0, {});
  EXPECT_EQ(wide == narrow, up.find("(") == std::string::npos) << up;
  for (const LinearRole last : {kUp, kQueryOrOutput, kGate}) {
    for (const LinearRole role : {kUp, kQueryOrOutput, kGate, kOther}) {
      EXPECT_EQ(product(role, last), role <= last ? narrow : wide);
    }
    auto weight_of = set_->PrepareLinear(weight.view(), {.role = last, .narrow_to = last}).value();
    EXPECT_FALSE(weight_of->rotates_rows());  // attention stays in f32
    const std::string name = set_->numeric_class(DType::kQ4_0, {.narrow_to = last});
    EXPECT_EQ(name == up, last == kUp || wide == narrow) << name;
  }
}

// Weights 7 under 1 and -8 under -1: no sums of 16 bits are further from zero, whichever bytes of
// four they are made of. All numbers are exact but the rows' scale.
TEST_P(LinearConformanceTest, SumsOfBytesHoldTheLargestProducts) {
  const std::vector<unsigned> kPatterns = {0b0011, 0b1100, 0b0101, 0b1010, 0b1111, 0b0000};
  const auto patterns = static_cast<int64_t>(kPatterns.size());
  const auto positive = [&](int64_t pattern, int64_t k) {
    return (kPatterns[static_cast<size_t>(pattern)] >> (k % 4) & 1) != 0;
  };
  for (const int64_t inputs : {32, 1024}) {
    std::vector<uint8_t> blocks;
    for (int64_t pattern = 0; pattern < patterns; ++pattern) {
      for (int64_t begin = 0; begin < inputs; begin += 32) {
        blocks.insert(blocks.end(), {0x00, 0x3c});  // 1 as a half
        for (int64_t k = 0; k < 16; ++k) {
          blocks.push_back(static_cast<uint8_t>((positive(pattern, k) ? 15 : 0) |
                                                (positive(pattern, k + 16) ? 15 : 0) << 4));
        }
      }
    }
    TensorView weight;
    weight.dtype = DType::kQ4_0;
    weight.shape = {patterns, inputs};
    weight.data = reinterpret_cast<const std::byte*>(blocks.data());
    auto prepared = set_->PrepareLinear(weight, {.role = LinearRole::kUp}).value();
    for (const int64_t rows : {1, 6, 30}) {
      for (int64_t first = 0; first < patterns; ++first) {
        OwnedMatrix x(rows, inputs), y(rows, patterns);
        const auto pattern_of = [&](int64_t row) { return (first + row) % patterns; };
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t k = 0; k < inputs; ++k) {
            x.view().row(row)[k] = positive(pattern_of(row), k) ? 1.0f : -1.0f;
          }
        }
        set_->Linear(x.view(), *prepared, nullptr, Epilogue::kNone, y.view());
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t col = 0; col < patterns; ++col) {
            double exact = 0;
            for (int64_t k = 0; k < inputs; ++k) {
              exact += (positive(col, k) ? 7 : -8) * double(x.view().row(row)[k]);
            }
            EXPECT_NEAR(y.view().row(row)[col], exact, 8.0 * double(inputs) * 1e-4)
                << "row " << row << " col " << col << " inputs " << inputs;
          }
        }
      }
    }
  }
}

TEST_P(LinearConformanceTest, F32ActivationsAreTheReferenceMode) {
  for (DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ5_0, DType::kBF16}) {
    if (GetParam() != "reference") {
      const LinearOptions options{.activations = ActivationPrecision::kF32};
      EXPECT_NE(set_->numeric_class(dtype, options).find(" x f32, "), std::string::npos);
    }
    Check(dtype,
          {.rows = 9, .outputs = 48, .inputs = 640, .activations = ActivationPrecision::kF32});
  }
}

// Rows of 16-bit integers times the integers of the file, which take so many bits a weight.
TEST_P(LinearConformanceTest, BlocksAreMultipliedAsTheyAreNotWidened) {
  if (GetParam() == "reference") GTEST_SKIP() << "keeps a view";
  Random random(6);
  for (const auto& [dtype, bits] : {std::pair{DType::kQ4_0, 4.5},
                                    {DType::kQ8_0, 8.5},
                                    {DType::kQ5_0, 8.5},
                                    {DType::kIQ4_NL, 8.5},
                                    {DType::kQ4_1, 6.0},
                                    {DType::kQ4_K, 6.0},
                                    {DType::kQ5_1, 10.0},
                                    {DType::kQ5_K, 10.0},
                                    {DType::kQ3_K, 10.0},
                                    {DType::kQ6_K, 10.0}}) {
    SCOPED_TRACE(DTypeName(dtype));
    EXPECT_NE(set_->numeric_class(dtype, {}).find(" x i16-row"), std::string::npos);
    const OwnedTensor weight(random, dtype, 32, 512);
    auto prepared = set_->PrepareLinear(weight.view(), {});
    ASSERT_TRUE(prepared.ok());
    EXPECT_EQ(static_cast<double>((*prepared)->owned_bytes()), 32 * 512 * bits / 8);
  }
}

TEST_P(LinearConformanceTest, WeightsAreConvertedToWhatIsAskedFor) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kQ6_K}) {
    for (WeightType weights : {WeightType::kF32, WeightType::kF16, WeightType::kBF16,
                               WeightType::kInt8, WeightType::kInt4}) {
      Check(dtype, {.rows = 7, .outputs = 33, .inputs = 256, .weights = weights});
    }
  }
  Check(DType::kF32, {.rows = 7, .outputs = 33, .inputs = 40, .weights = WeightType::kInt8});
}

TEST_P(LinearConformanceTest, Int8IsRotatedWhereItPays) {
  const LinearOptions options{.weights = WeightType::kInt8};
  const bool rotates = GetParam() == "avx512-vnni" || GetParam() == "avx512-bf16" ||
                       GetParam() == "avx2-vnni" || GetParam() == "neon-i8mm";
  EXPECT_EQ(set_->numeric_class(DType::kF32, options)
                .find(rotates ? "f32 as i8 x i8-rotated, " : "f32 as q8_0 x "),
            0u);
  EXPECT_EQ(set_->numeric_class(DType::kQ8_0, options).find("q8_0 x "), 0u);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25, 97}) {
      Check(dtype, {.rows = rows, .outputs = 150, .inputs = 384, .weights = WeightType::kInt8});
    }
    Check(dtype, {.rows = 20, .outputs = 17, .inputs = 3072, .weights = WeightType::kInt8});
    Check(dtype, {.rows = 3,
                  .outputs = 33,
                  .inputs = 128,
                  .epilogue = Epilogue::kGeluErf,
                  .with_bias = true,
                  .padding = 5,
                  .weights = WeightType::kInt8});
  }
}

TEST_P(LinearConformanceTest, RowsInPlace) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25, 97}) {
      Check(dtype, {.rows = rows, .outputs = 50, .inputs = 256, .in_place = true});
    }
    for (int64_t rows : {1, 3, 20}) {
      Check(dtype, {.rows = rows, .outputs = 1, .inputs = 3072, .in_place = true});
      Check(dtype, {.rows = rows, .outputs = 150, .inputs = 32, .in_place = true});
    }
    Check(dtype, {.rows = 14,
                  .outputs = 37,
                  .inputs = 96,
                  .epilogue = Epilogue::kGeluErf,
                  .with_bias = true,
                  .padding = 5,
                  .in_place = true});
  }
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t inputs : {1, 2, 7, 15, 17, 257, 1001}) {
      Check(dtype, {.rows = 8, .outputs = 30, .inputs = inputs, .in_place = true});
    }
  }
  Check(DType::kQ6_K, {.rows = 3, .outputs = 30, .inputs = 256, .in_place = true});
}

// A copy would be memory that the option is there to save; and where a file has the tensor is
// nobody's choice.
TEST_P(LinearConformanceTest, RowsInPlaceAreNotCopiedAndMayLieAnywhere) {
  Random random(5);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    const OwnedTensor weight(random, dtype, 40, 96);
    const OwnedMatrix x = OwnedMatrix::Of(random, 2, 96);
    const auto size = static_cast<size_t>(weight.view().bytes());
    OwnedMatrix expected(2, 40), actual(2, 40);
    for (size_t shift = 0; shift < 4; ++shift) {
      // Nothing behind the last row may be read: a sanitizer notices.
      std::vector<std::byte> bytes(shift + size);
      std::copy_n(weight.view().data, size, bytes.data() + shift);
      TensorView moved = weight.view();
      moved.data = bytes.data() + shift;
      auto prepared = set_->PrepareLinear(moved, {.in_place = true});
      ASSERT_TRUE(prepared.ok()) << prepared.status().ToString();
      EXPECT_EQ((*prepared)->owned_bytes(), 0u);
      EXPECT_EQ((*prepared)->dtype(), dtype);
      const F32Matrix y = shift == 0 ? expected.view() : actual.view();
      set_->Linear(x.view(), **prepared, nullptr, Epilogue::kNone, y);
      if (shift > 0) {
        EXPECT_TRUE(pergola::testing::BitEqual(actual.view(), expected.view()));
      }
    }
  }
}

TEST_P(LinearConformanceTest, ZeroRowsAndZeroActivationsAreFine) {
  Random random(3);
  for (DType dtype : {DType::kF32, DType::kQ8_0, DType::kQ4_0}) {
    const OwnedTensor weight(random, dtype, 20, 64);
    auto prepared = set_->PrepareLinear(weight.view(), {});
    ASSERT_TRUE(prepared.ok());
    OwnedMatrix none(0, 64), empty(0, 20);
    set_->Linear(none.view(), **prepared, nullptr, Epilogue::kNone, empty.view());

    const std::vector<float> zeros(64, 0.0f), bias = random.Values(20);
    OwnedMatrix y(1, 20);
    set_->Linear({zeros.data(), 1, 64}, **prepared, bias.data(), Epilogue::kNone, y.view());
    EXPECT_TRUE(pergola::testing::BitEqual(y.view(), ConstF32Matrix(bias.data(), 1, 20)));
  }
}

TEST_P(LinearConformanceTest, RefusesWhatItCannotMultiply) {
  Random random(4);
  const std::vector<std::byte> bytes(4096);
  TensorView view{bytes.data(), DType::kI32, {4, 4}};
  auto refused = set_->PrepareLinear(view, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(refused.status().message().find("I32"), std::string::npos);
  view = {bytes.data(), DType::kQ8_0, {4, 48}};
  EXPECT_EQ(set_->PrepareLinear(view, {}).status().code(), StatusCode::kInvalidArgument);
  view = {bytes.data(), DType::kF32, {0, 4}};
  EXPECT_EQ(set_->PrepareLinear(view, {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pergola::kernels
