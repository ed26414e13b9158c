// Which products of a layer take rows of 8 bits under 4-bit weights: seen by their bits.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/memory_source.h"
#include "kernels/select.h"
#include "kernels/testing/random_tensors.h"
#include "models/blocks/local_ffn.h"
#include "models/blocks/self_attention.h"

namespace pergola::models {
namespace {

using kernels::LinearRole;
using enum kernels::LinearRole;

constexpr int64_t kWidth = 64;

class WeightRolesPerIsaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ops = kernels::MakeOps({});
    ASSERT_TRUE(ops.ok()) << ops.status().ToString();
    ops_ = std::move(*ops);
    const kernels::LinearOptions options{.weights = kernels::WeightType::kInt4};
    if (ops_->numeric_class(DType::kF32, options).find("before up") == std::string::npos) {
      GTEST_SKIP() << "these kernels round all rows alike";
    }
    for (const char* name : {"query", "key", "value", "output", "gate", "up", "down"}) {
      ASSERT_TRUE(source_
                      .AddF32(name + std::string(".weight"), {kWidth, kWidth},
                              random_.Values(kWidth * kWidth))
                      .ok());
    }
  }

  // The tensors one below the other, as one more.
  void Join(const std::vector<std::string>& parts, const std::string& joined) {
    std::vector<std::byte> bytes;
    for (const std::string& part : parts) {
      const std::byte* data = View(part).data;
      bytes.insert(bytes.end(), data, data + kWidth * kWidth * sizeof(float));
    }
    const auto rows = static_cast<int64_t>(parts.size()) * kWidth;
    ASSERT_TRUE(source_.Add(joined + ".weight", DType::kF32, {rows, kWidth}, bytes).ok());
  }

  WeightReader Reader(LinearRole narrow_to) {
    return WeightReader(source_, *ops_,
                        {.narrow_to = narrow_to, .weights = kernels::WeightType::kInt4});
  }

  // Whether the layer, which was read from the tensor, takes rows of 8 bits.
  bool IsNarrow(const LinearLayer& layer, const std::string& name) {
    const std::vector<float> got = Product(*layer.weight);
    const std::vector<float> narrow = Product(*Prepared(name, kUp));
    const std::vector<float> wide = Product(*Prepared(name, kOther));
    EXPECT_NE(narrow, wide);
    EXPECT_TRUE(got == narrow || got == wide) << name << " was read from another tensor";
    return got == narrow;
  }

  formats::MemorySource source_;
  std::unique_ptr<kernels::Ops> ops_;

 private:
  const TensorView& View(const std::string& name) { return source_.Find(name + ".weight")->view; }

  std::unique_ptr<kernels::LinearWeight> Prepared(const std::string& name, LinearRole role) {
    return ops_->PrepareLinear(View(name), {.role = role, .weights = kernels::WeightType::kInt4})
        .value();
  }

  std::vector<float> Product(const kernels::LinearWeight& weight) {
    std::vector<float> y(static_cast<size_t>(weight.outputs()));
    ops_->Linear({x_.data(), 1, kWidth}, weight, nullptr, kernels::Epilogue::kNone,
                 {y.data(), 1, weight.outputs()});
    return y;
  }

  kernels::testing::Random random_{1};
  const std::vector<float> x_ = random_.Values(kWidth);
};

TEST_F(WeightRolesPerIsaTest, OfAttention) {
  const AttentionNames names{.query = "query", .key = "key", .value = "value", .output = "output"};
  const AttentionShape shape{
      .hidden_size = kWidth, .num_heads = 1, .num_kv_heads = 1, .head_width = kWidth};
  for (const LinearRole last : {kUp, kQueryOrOutput, kGate}) {
    WeightReader reader = Reader(last);
    const auto weights = ReadAttention(reader, "", names, shape);
    ASSERT_TRUE(weights.ok()) << weights.status().ToString();
    EXPECT_EQ(IsNarrow(weights->query, "query"), last >= kQueryOrOutput);
    EXPECT_EQ(IsNarrow(weights->output, "output"), last >= kQueryOrOutput);
    EXPECT_FALSE(IsNarrow(weights->key, "key"));
    EXPECT_FALSE(IsNarrow(weights->value, "value"));
  }
}

// Query, key and value as one matrix are one product, which keys and values keep wide.
TEST_F(WeightRolesPerIsaTest, OfFusedProjections) {
  const AttentionShape shape{
      .hidden_size = kWidth, .num_heads = 1, .num_kv_heads = 1, .head_width = kWidth};
  ASSERT_NO_FATAL_FAILURE(Join({"query", "key", "value"}, "qkv"));
  WeightReader reader = Reader(kGate);
  const auto weights = ReadAttention(reader, "", {.qkv = "qkv", .output = "output"}, shape);
  ASSERT_TRUE(weights.ok()) << weights.status().ToString();
  EXPECT_FALSE(IsNarrow(weights->qkv, "qkv"));
  EXPECT_TRUE(IsNarrow(weights->output, "output"));
}

TEST_F(WeightRolesPerIsaTest, OfFeedForwardBlocks) {
  ASSERT_NO_FATAL_FAILURE(Join({"gate", "up"}, "gate_up"));
  ASSERT_NO_FATAL_FAILURE(Join({"up", "gate"}, "up_gate"));
  const FfnShape shape{.hidden_size = kWidth, .intermediate_size = kWidth};
  for (const FfnNames& names :
       {FfnNames{.up = "up", .down = "down"}, FfnNames{.gate = "gate", .up = "up", .down = "down"},
        FfnNames{.down = "down", .gate_and_up = "gate_up"},
        FfnNames{.down = "down", .gate_and_up = "up_gate", .up_first = true}}) {
    for (const LinearRole last : {kUp, kQueryOrOutput, kGate}) {
      WeightReader reader = Reader(last);
      const auto weights = ReadFfn(reader, "", names, shape);
      ASSERT_TRUE(weights.ok()) << weights.status().ToString();
      EXPECT_TRUE(IsNarrow(weights->up, "up"));
      EXPECT_FALSE(IsNarrow(weights->down, "down"));
      const bool gated = !names.gate.empty() || !names.gate_and_up.empty();
      ASSERT_EQ(weights->gate.weight != nullptr, gated);
      if (!gated) continue;
      EXPECT_EQ(IsNarrow(weights->gate, "gate"), last >= kGate);
    }
  }
}

}  // namespace
}  // namespace pergola::models
