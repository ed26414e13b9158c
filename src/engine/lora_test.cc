// A whole adapter against the reference library: engine/tiny_models_test.cc ("qwen2-lora").

#include "engine/lora.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/local_runner.h"
#include "engine/model.h"
#include "formats/memory_source.h"
#include "kernels/reference_ops.h"

namespace pergola::engine {
namespace {

namespace fs = std::filesystem;

class LoraTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::path(::testing::TempDir()) / ("pergola_lora_" + std::string(TestName()));
    fs::remove_all(directory_);
    fs::copy(std::string(PERGOLA_TEST_DATA) + "/golden/tiny/qwen2-lora", directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }
  static const char* TestName() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void Configure(const std::string& json) {
    std::ofstream(directory_ / "adapter_config.json") << json;
  }
  Status MergeInto(std::unique_ptr<formats::MemorySource> base) {
    return MergeLora(std::move(base), directory_.string(), *ops_).status();
  }
  std::unique_ptr<kernels::Ops> ops_ = kernels::MakeReferenceOps(1);
  fs::path directory_;
};

TEST_F(LoraTest, AnAdapterIsAFolderWithoutAModel) {
  EXPECT_TRUE(IsLoraAdapter(directory_.string()));
  std::ofstream(directory_ / "model.safetensors") << "x";
  EXPECT_FALSE(IsLoraAdapter(directory_.string()));
}

TEST_F(LoraTest, TheBaseIsAFolderBesideIt) {
  EXPECT_NE(LoraBase(directory_.string()).status().message().find("'../qwen2' is no folder"),
            std::string::npos);
  fs::create_directories(directory_ / "base");
  std::ofstream(directory_ / "base" / "config.json") << "{}";
  Configure(R"({"base_model_name_or_path": "base"})");
  const auto base = LoraBase(directory_.string());
  ASSERT_TRUE(base.ok()) << base.status().ToString();
  EXPECT_EQ(*base, (directory_ / "base").string());
}

TEST_F(LoraTest, RefusesWhatWouldChangeResults) {
  for (const char* setting : {R"("use_dora": true)", R"("peft_type": "IA3")",
                              R"("rank_pattern": {"q_proj": 8})", R"("fan_in_fan_out": true)"}) {
    Configure(std::string(R"({"r": 4, "lora_alpha": 6, )") + setting + "}");
    EXPECT_EQ(MergeInto(std::make_unique<formats::MemorySource>()).code(),
              StatusCode::kUnimplemented)
        << setting;
  }
  Configure(R"({"r": 4})");
  EXPECT_EQ(MergeInto(std::make_unique<formats::MemorySource>()).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(LoraTest, TheRankIsThatOfTheTensors) {
  Configure(R"({"r": 8, "lora_alpha": 6})");
  auto base = std::make_unique<formats::MemorySource>();
  ASSERT_TRUE(
      base->AddF32("model.layers.0.mlp.down_proj.weight", {2, 3}, std::vector<float>(6)).ok());
  const Status status = MergeInto(std::move(base));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("the adapter's 'r' is 8"), std::string::npos) << status.message();
}

TEST_F(LoraTest, NamesATensorThatTheBaseLacksOrHasInAnotherShape) {
  const Status missing = MergeInto(std::make_unique<formats::MemorySource>());
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("has no tensor 'layers.0.mlp.down_proj.weight'"),
            std::string::npos)
      << missing.message();
  auto other = std::make_unique<formats::MemorySource>();
  ASSERT_TRUE(
      other->AddF32("model.layers.0.mlp.down_proj.weight", {2, 3}, std::vector<float>(6)).ok());
  EXPECT_EQ(MergeInto(std::move(other)).code(), StatusCode::kInvalidArgument);
}

// The base that is named counts, not the one that the adapter was trained beside.
TEST_F(LoraTest, IsMergedIntoTheModelThatIsGiven) {
  const std::string tiny = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/";
  Configure(R"({"r": 4, "lora_alpha": 6, "base_model_name_or_path": "organisation/name"})");
  const auto given = Model::Load(tiny + "qwen2", {.ops = {}, .adapter = directory_.string()});
  const auto own = Model::Load(tiny + "qwen2-lora", {});
  const auto base = Model::Load(tiny + "qwen2", {});
  ASSERT_TRUE(given.ok()) << given.status().ToString();
  ASSERT_TRUE(own.ok() && base.ok());
  const Sequence sequence{.ids = {5, 17, 400, 3}};
  const SequenceInput input{&sequence};
  const auto row_of = [&](const Model& model) {
    LocalRunner runner(model);
    const auto outputs = runner.Run({&input, 1});
    EXPECT_TRUE(outputs.ok()) << outputs.status().ToString();
    const ConstF32Matrix row = *(*outputs)->Rows(0, OutputKind::kEmbedding);
    return std::vector<float>(row.data, row.data + row.cols);
  };
  EXPECT_EQ(row_of(**given), row_of(**own));
  EXPECT_NE(row_of(**given), row_of(**base));
  // Two layers' query [32, 32] and down [32, 48] projections in f32.
  EXPECT_GE((*given)->facts().owned_bytes - (*base)->facts().owned_bytes,
            2 * (32 * 32 + 32 * 48) * static_cast<int64_t>(sizeof(float)));
}

TEST_F(LoraTest, RefusesAnAdapterOfAnAdapterAndAFolderThatIsNone) {
  const std::string tiny = std::string(PERGOLA_TEST_DATA) + "/golden/tiny/";
  EXPECT_EQ(
      Model::Load(tiny + "qwen2-lora", {.ops = {}, .adapter = directory_.string()}).status().code(),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(Model::Load(tiny + "qwen2", {.ops = {}, .adapter = tiny + "bert"}).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace pergola::engine
