#include "api/served_model.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/temp_folder.h"
#include "formats/tensor_source.h"
#include "service/embedding_format.h"

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

// pplx-embed's own int8, by the reference library. Where 127 tanh(x) lies on a half, f32 rounding
// may take the other side.
TEST(ServedModelTest, Int8OfPplxEmbedIsTheReferences) {
  const std::string path = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/qwen3-bidir";
  const auto served = ServedModel::Open("pplx", path, {});
  ASSERT_TRUE(served.ok()) << served.status().ToString();
  EXPECT_EQ((*served)->info().int8_rule, service::Int8Rule::kTanh);
  std::ifstream file(path + "/golden.i8", std::ios::binary);
  const std::vector<char> expected{std::istreambuf_iterator<char>(file), {}};
  const auto width = static_cast<size_t>((*served)->info().width(OutputKind::kEmbedding));
  simdjson::dom::parser parser;
  size_t index = 0;
  for (const simdjson::dom::element ids : parser.load(path + "/golden.json")["ids"].get_array()) {
    Sequence text;
    for (const int64_t id : ids.get_array()) text.ids.push_back(static_cast<int32_t>(id));
    const auto output =
        (*served)->scheduler().RunBlocking(Ask(std::move(text), {OutputKind::kEmbedding}));
    ASSERT_TRUE(output.ok()) << output.status().ToString();
    const std::vector<float>& row = (*output->sequences[0])[OutputKind::kEmbedding].values;
    std::vector<int8_t> quantised(width);
    service::FormatInt8(row, service::Int8Rule::kTanh, quantised);
    ASSERT_LE(index + width, expected.size());
    for (size_t col = 0; col < width; ++col, ++index) {
      const double value = 127 * std::tanh(static_cast<double>(row[col]));
      const bool on_a_half = std::abs(std::abs(value - std::trunc(value)) - 0.5) < 1e-2;
      EXPECT_LE(std::abs(quantised[col] - static_cast<int8_t>(expected[index])), on_a_half ? 1 : 0)
          << "value " << index << ": " << value;
    }
  }
  EXPECT_EQ(index, expected.size());
}

// Wherever in the weights: no forward pass of a few tokens would see a row of the embedding table.
TEST(ServedModelTest, TheIdentityIsOfAllWeights) {
  const TempFolder folder;
  const auto copy = folder.path() / "model";
  std::filesystem::copy(std::string(PERGOLA_TEST_DATA) + "/golden/tiny/bert", copy,
                        std::filesystem::copy_options::recursive);
  const auto identity = [&] {
    ServedModelOptions options;
    options.identify = true;
    const auto served = ServedModel::Open("m", copy.string(), options);
    EXPECT_TRUE(served.ok()) << served.status().ToString();
    return served.ok() ? (*served)->info().rows_identity : std::string();
  };
  std::string before = identity();
  EXPECT_EQ(identity(), before);
  std::ofstream(copy / "config.json", std::ios::app) << "\n";
  EXPECT_NE(identity(), before)
      << "of the configuration, too, of which short texts may show nothing";
  before = identity();
  const auto source = formats::OpenTensorSource(copy.string());
  ASSERT_TRUE(source.ok());
  const formats::TensorInfo* table = (*source)->Find("embeddings.word_embeddings.weight");
  ASSERT_NE(table, nullptr);
  std::fstream file(copy / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  // Of token 1, which is not one of those asked; its lowest bits.
  file.seekp(static_cast<std::streamoff>(table->file_offset + table->view.row_bytes()));
  file.put('\x5a');
  file.close();
  EXPECT_NE(identity(), before);
}

class ResidentServedModelTest : public ::testing::Test {
 protected:
  ResidentServedModelTest() {
    std::filesystem::copy(std::string(PERGOLA_TEST_DATA) + "/golden/tiny/bert", path(),
                          std::filesystem::copy_options::recursive);
  }
  std::filesystem::path path() const { return folder_.path() / "bert"; }
  static Result<service::InferenceOutput> Embed(const ServedModel& served,
                                                std::vector<int32_t> ids) {
    std::promise<Result<service::InferenceOutput>> answer;
    served.service()->Submit(Ask({.ids = std::move(ids)}, {OutputKind::kEmbedding}),
                             [&](auto output) { answer.set_value(std::move(output)); });
    return answer.get_future().get();
  }
  Result<std::unique_ptr<ServedModel>> Open(const std::string& name = "bert") const {
    ServedModelOptions options;
    options.scheduler.cache_bytes = 0;
    options.identify = true;
    options.residents = residents_;
    return ServedModel::Open(name, (folder_.path() / name).string(), options);
  }

  TempFolder folder_;
  std::shared_ptr<ResidentModels> residents_ = std::make_shared<ResidentModels>(
      ResidentModels::Options{.keep_alive = std::chrono::milliseconds(0)});
};

TEST_F(ResidentServedModelTest, ALoadedAgainModelGivesTheSameBits) {
  const auto served = Open();
  ASSERT_TRUE(served.ok()) << served.status().ToString();
  EXPECT_GE((*served)->service()->residence().bytes, (*served)->info().weight_bytes);
  const auto before = Embed(**served, {2, 17, 40, 3});
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  residents_->UnloadExpired();
  EXPECT_FALSE((*served)->service()->residence().loaded);
  const auto after = Embed(**served, {2, 17, 40, 3});
  ASSERT_TRUE(after.ok()) << after.status().ToString();
  EXPECT_GT(after->load_time.count(), 0);
  EXPECT_EQ((*before->sequences[0])[OutputKind::kEmbedding].values,
            (*after->sequences[0])[OutputKind::kEmbedding].values);
}

TEST_F(ResidentServedModelTest, FilesThatAreGoneOrChangedAreAnErrorUntilTheyAreBack) {
  const auto served = Open();
  ASSERT_TRUE(served.ok()) << served.status().ToString();
  residents_->UnloadExpired();
  const std::filesystem::path weights = path() / "model.safetensors";
  std::filesystem::rename(weights, folder_.path() / "away");
  EXPECT_EQ(Embed(**served, {2, 17, 3}).status().code(), StatusCode::kInternal);

  std::filesystem::copy(folder_.path() / "away", weights);
  {
    // Other numbers in the same places.
    const std::string zeros(100'000, '\0');
    std::fstream file(weights, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(weights) / 2));
    file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
  }
  EXPECT_EQ(Embed(**served, {2, 17, 3}).status().code(), StatusCode::kInternal);

  std::filesystem::rename(folder_.path() / "away", weights);
  std::filesystem::last_write_time(weights, std::filesystem::file_time_type::clock::now());
  EXPECT_TRUE(Embed(**served, {2, 17, 3}).ok());
}

TEST_F(ResidentServedModelTest, FilesThatAreCutOffSendNoOtherModelAway) {
  std::filesystem::copy(path(), folder_.path() / "broken",
                        std::filesystem::copy_options::recursive);
  const auto alone = Open();
  ASSERT_TRUE(alone.ok()) << alone.status().ToString();
  const int64_t bytes = (*alone)->service()->residence().bytes;
  residents_ = std::make_shared<ResidentModels>(
      ResidentModels::Options{.budget_bytes = bytes * 3 / 2, .on_demand = true});
  const auto broken = Open("broken");
  const auto good = Open();
  ASSERT_TRUE(broken.ok() && good.ok());
  ASSERT_TRUE(Embed(**broken, {2, 17, 3}).ok());
  ASSERT_TRUE(Embed(**good, {2, 17, 3}).ok());
  EXPECT_FALSE((*broken)->service()->residence().loaded) << "there is room for both";
  const auto weights = folder_.path() / "broken" / "model.safetensors";
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 1);
  EXPECT_EQ(Embed(**broken, {2, 17, 3}).status().code(), StatusCode::kInternal);
  EXPECT_TRUE((*good)->service()->residence().loaded);
}

}  // namespace
}  // namespace pergola::api
