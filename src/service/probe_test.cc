#include "service/probe.h"

#include <gtest/gtest.h>

#include <set>

namespace pergola::service {
namespace {

TEST(ProbeTest, IsValidAndDifferentEachTime) {
  ModelInfo model;
  model.id = "m";
  model.vocab_size = 3;
  model.max_tokens = 2;
  model.widths[static_cast<size_t>(OutputKind::kEmbedding)] = 4;
  std::set<std::vector<int32_t>> seen;
  for (uint64_t number = 0; number < 9; ++number) {
    const InferenceRequest probe = MakeProbe(model, number);
    EXPECT_EQ(probe.model, "m");
    EXPECT_TRUE(probe.outputs.Has(OutputKind::kEmbedding));
    ASSERT_EQ(probe.sequences.size(), 1U);
    for (const int32_t id : probe.sequences[0].ids) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, 3);
    }
    seen.insert(probe.sequences[0].ids);
  }
  EXPECT_EQ(seen.size(), 9U);
}

TEST(ProbeTest, AsksForWhatTheModelHas) {
  ModelInfo model;
  model.vocab_size = 10;
  model.max_tokens = 1;
  model.widths[static_cast<size_t>(OutputKind::kLogits)] = 2;
  const InferenceRequest probe = MakeProbe(model, 25);
  EXPECT_EQ(probe.outputs, OutputSet{OutputKind::kLogits});
  EXPECT_EQ(probe.sequences[0].ids, std::vector<int32_t>{5});
}

}  // namespace
}  // namespace pergola::service
