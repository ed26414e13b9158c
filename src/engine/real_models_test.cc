// Second tier: real weights against the reference library's vectors and hidden states
// (tests/golden/<model>, made by PyTorch and sentence-transformers; versions in manifest.json).
// Needs PERGOLA_REAL_MODELS, a folder with all-MiniLM-L6-v2/ and embeddinggemma-300m/.

#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/local_runner.h"
#include "engine/model.h"
#include "engine/testing/golden_values.h"

namespace pergola::engine {
namespace {

// L2-normalised copy; a reference of zeros (no vector exists) stays zero.
std::vector<double> Unit(const float* row, int64_t width) {
  std::vector<double> unit(row, row + width);
  double square = 0;
  for (const double value : unit) square += value * value;
  for (double& value : unit) value = square > 0 ? value / std::sqrt(square) : 0;
  return unit;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

class RealModelTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PERGOLA_REAL_MODELS");
    if (folder == nullptr) GTEST_SKIP() << "PERGOLA_REAL_MODELS is not set";
    golden_ = std::string(PERGOLA_TEST_DATA) + "/golden/" + GetParam();
    auto model = Model::Load(std::string(folder) + "/" + GetParam(), {});
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = std::move(*model);
  }

  std::vector<int32_t> Encode(std::string_view text) const {
    tokenizers::EncodeOptions options;
    options.max_tokens = static_cast<size_t>(model_->pipeline().max_tokens);
    tokenizers::Encoding encoding;
    EXPECT_TRUE(model_->tokenizer()->Encode(text, options, &encoding).ok());
    return encoding.ids;
  }

  std::string golden_;
  std::unique_ptr<Model> model_;
};

TEST_P(RealModelTest, VectorsOfAllTextsAgreeWithTheReference) {
  simdjson::dom::parser parser;
  const simdjson::dom::element texts =
      parser.load(std::string(PERGOLA_TEST_DATA) + "/golden/texts.json");
  const simdjson::dom::element list = texts.is_array() ? texts : texts["texts"].value();
  const std::vector<float> vectors = ReadFloats(golden_ + "/vectors.f32");
  const int64_t width = model_->width(OutputKind::kEmbedding);
  LocalRunner runner(*model_);
  double worst = 1;
  size_t index = 0;
  for (const simdjson::dom::element text : list.get_array()) {
    const std::vector<double> expected =
        Unit(vectors.data() + static_cast<int64_t>(index) * width, width);
    const Sequence sequence{Encode(std::string_view(text["text"]))};
    auto outputs = runner.Run(std::vector<SequenceInput>{{&sequence}});
    if (Dot(expected, expected) == 0) {
      // The reference has no vector: an id beyond the embedding table.
      EXPECT_EQ(outputs.status().code(), StatusCode::kInvalidArgument) << "text " << index;
    } else {
      ASSERT_TRUE(outputs.ok()) << "text " << index << ": " << outputs.status().ToString();
      const double cosine =
          Dot(expected, Unit((*outputs)->Rows(0, OutputKind::kEmbedding)->data, width));
      EXPECT_GE(cosine, 0.99999) << "text " << index;
      worst = std::min(worst, cosine);
    }
    ++index;
  }
  EXPECT_EQ(index, 212u);
  RecordProperty("worst_cosine", std::to_string(worst));
  std::printf("%s: worst cosine of %zu texts %.8f\n", GetParam(), index, worst);
}

// Every stage of one short text: catches what the pooled cosine hides.
TEST_P(RealModelTest, EveryLayerAgreesWithTheReference) {
  simdjson::dom::parser parser;
  const simdjson::dom::element golden = parser.load(golden_ + "/layers.json");
  const std::vector<float> expected = ReadFloats(golden_ + "/layers.f32");
  Sequence sequence;
  for (const int64_t id : golden["ids"].get_array()) {
    sequence.ids.push_back(static_cast<int32_t>(id));
  }
  std::vector<std::string> stages;
  for (const simdjson::dom::element name : golden["stages"].get_array()) {
    stages.emplace_back(std::string_view(name));
  }
  std::vector<std::vector<float>> seen;
  const models::StageObserver observer = [&](models::Stage stage, int64_t layer,
                                             ConstF32Matrix rows) {
    // The goldens hold the attention output of layers 0 and 5 only.
    if (stage == models::Stage::kAttention && layer != 0 && layer != 5) return;
    seen.emplace_back(rows.data, rows.data + rows.rows * rows.cols);
  };
  LocalRunner runner(*model_);
  runner.set_observer(&observer);
  ASSERT_TRUE(runner.Run(std::vector<SequenceInput>{{&sequence}}).ok());
  ASSERT_EQ(seen.size(), stages.size());
  const size_t rows = sequence.ids.size();
  const auto width = static_cast<size_t>(model_->hidden_width());
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (size_t row = 0; row < rows; ++row) {
      const float* reference = expected.data() + (stage * rows + row) * width;
      float largest = 0;
      for (size_t col = 0; col < width; ++col) {
        largest = std::max(largest, std::abs(reference[col]));
      }
      for (size_t col = 0; col < width; ++col) {
        // f32 against f32 in another order of summation over up to 24 layers.
        ASSERT_NEAR(seen[stage][row * width + col], reference[col], 2e-4f * largest)
            << stages[stage] << ", row " << row << ", column " << col;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Real, RealModelTest,
                         ::testing::Values("all-MiniLM-L6-v2", "embeddinggemma-300m"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace pergola::engine
