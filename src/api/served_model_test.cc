#include "api/served_model.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace pergola::api {
namespace {

double Counter(const ServedModel& served, const std::string& name) {
  for (const service::MetricSample& sample : served.scheduler().Metrics()) {
    if (sample.name == name) return sample.value;
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

service::InferenceRequest Ask(Sequence sequence, OutputSet outputs) {
  service::InferenceRequest request;
  request.sequences = {std::move(sequence)};
  request.outputs = outputs;
  return request;
}

// BGE-M3's three outputs in any company cost one pass over the tokens.
TEST(ServedModelTest, AllOutputsOfATextAreComputedInOnePass) {
  const std::string path = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/bge-m3";
  const auto served = ServedModel::Open("bge-m3", path, {});
  ASSERT_TRUE(served.ok()) << served.status().ToString();
  const Sequence text{.ids = {2, 17, 400, 91, 3}};
  const OutputSet all = {OutputKind::kEmbedding, OutputKind::kSparse, OutputKind::kMultiVector};
  const auto output = (*served)->scheduler().RunBlocking(Ask(text, all));
  ASSERT_TRUE(output.ok()) << output.status().ToString();
  const service::SequenceOutput& rows = *output->sequences[0];
  EXPECT_EQ(rows[OutputKind::kSparse].values.size(), text.ids.size());
  EXPECT_FALSE(rows[OutputKind::kEmbedding].values.empty());
  EXPECT_FALSE(rows[OutputKind::kMultiVector].values.empty());
  EXPECT_EQ(Counter(**served, "pergola_batch_tokens_total"), 5);
  EXPECT_EQ(Counter(**served, "pergola_batches_total"), 1);

  const Sequence other{.ids = {2, 91, 3}};
  const OutputSet two = {OutputKind::kEmbedding, OutputKind::kSparse};
  ASSERT_TRUE((*served)->scheduler().RunBlocking(Ask(other, two)).ok());
  EXPECT_EQ(Counter(**served, "pergola_batch_tokens_total"), 8);
}

}  // namespace
}  // namespace pergola::api
