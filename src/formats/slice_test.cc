#include "formats/slice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/memory_source.h"

namespace pergola::formats {
namespace {

namespace fs = std::filesystem;

class SliceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(::testing::TempDir()) / (std::string("pergola_slice_") + test->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
    ASSERT_TRUE(source_.AddF32("table", {2, 3}, {1, 2, 3, 4, 5, 6}).ok());
    ASSERT_TRUE(source_.AddF32("norm", {3}, {7, 8, 9}).ok());
    ASSERT_TRUE(source_.Set("general.architecture", "llama").ok());
    ASSERT_TRUE(source_.Set("llama.rope", 10000.0).ok());
    ASSERT_TRUE(source_.Set("tokenizer.tokens", std::vector<std::string>{"a", "b"}).ok());
    facts_ = {.part = "embed",
              .model = "m",
              .identity = ModelIdentity("{}", source_),
              .quantisation = "F32",
              .hidden_size = 3,
              .vocab_size = 2,
              .num_layers = 4,
              .embed_scale = 1.5f,
              .lm_head_tied = true};
    path_ = (root_ / "slice").string();
    ASSERT_TRUE(Write(path_).ok());
  }
  void TearDown() override { fs::remove_all(root_); }

  Status Write(const std::string& path) {
    return WriteSlice(path, facts_,
                      {{.name = "embeddings.bin", .tensors = {source_.Find("table")}},
                       {.name = "norms.bin", .tensors = {source_.Find("norm")}},
                       {.name = "config.json", .text = "{}"}},
                      source_.metadata());
  }
  std::string Read(const std::string& name) {
    std::ifstream file(fs::path(path_) / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Put(const std::string& name, const std::string& bytes) {
    std::ofstream(fs::path(path_) / name, std::ios::binary) << bytes;
  }
  // Replaces the first `from` in the index.
  void Change(const std::string& from, const std::string& to) {
    std::string index = Read("index.json");
    ASSERT_NE(index.find(from), std::string::npos) << from;
    Put("index.json", index.replace(index.find(from), from.size(), to));
  }
  void ExpectError(StatusCode code, const std::string& names, bool verify = false) {
    const auto opened = OpenSlice(path_, verify);
    EXPECT_EQ(opened.status().code(), code) << opened.status().ToString();
    EXPECT_NE(opened.status().message().find(names), std::string::npos)
        << opened.status().ToString();
  }

  fs::path root_;
  std::string path_;
  MemorySource source_;
  SliceFacts facts_;
};

TEST_F(SliceTest, ReadsBackFactsTensorsAndScalars) {
  EXPECT_TRUE(IsSlice(path_));
  const auto facts = ReadSliceFacts(path_);
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ(facts->identity, facts_.identity);
  EXPECT_EQ(facts->part, "embed");
  EXPECT_EQ(facts->embed_scale, 1.5f);
  EXPECT_TRUE(facts->lm_head_tied);
  EXPECT_EQ(facts->last_layer, -1);
  const auto slice = OpenSlice(path_, /*verify=*/true);
  ASSERT_TRUE(slice.ok()) << slice.status().ToString();
  const auto table = (*slice)->Get("table", {2, 3});
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(reinterpret_cast<const float*>(table->data)[5], 6.0f);
  EXPECT_EQ((*slice)->GetString("general.architecture"), "llama");
  EXPECT_EQ((*slice)->GetFloat("llama.rope"), 10000.0);
  EXPECT_EQ((*slice)->GetStrings("tokenizer.tokens"), nullptr) << "arrays are left out";
}

TEST_F(SliceTest, NeverWritesOverWhatIsThereAndLeavesNothingBehind) {
  EXPECT_EQ(Write(path_).code(), StatusCode::kAlreadyExists);
  const std::string other = (root_ / "other").string();
  EXPECT_FALSE(
      WriteSlice(other, facts_, {{.name = "tokenizer.json", .copy_of = "/no/such"}}, {}).ok());
  EXPECT_FALSE(fs::exists(other));
  EXPECT_FALSE(fs::exists(other + ".new"));
}

TEST_F(SliceTest, AFlippedByteIsFoundAndNamed) {
  std::string bytes = Read("norms.bin");
  bytes[5] ^= 1;
  Put("norms.bin", bytes);
  EXPECT_TRUE(OpenSlice(path_, false).ok());
  ExpectError(StatusCode::kDataLoss, "norms.bin is damaged", /*verify=*/true);
}

TEST_F(SliceTest, AMissingOrShortFileIsNamed) {
  Put("embeddings.bin", Read("embeddings.bin").substr(1));
  ExpectError(StatusCode::kDataLoss, "embeddings.bin has 23 bytes, expected 24");
  fs::remove(fs::path(path_) / "embeddings.bin");
  ExpectError(StatusCode::kDataLoss, "embeddings.bin is missing");
}

TEST_F(SliceTest, TensorsStayInsideTheirFiles) {
  Change("\"offset\":0", "\"offset\":4");
  ExpectError(StatusCode::kInvalidArgument, "reaches beyond the end");
}

TEST_F(SliceTest, SizesThatContradictTheTypeAreErrors) {
  Change("\"shape\":[2,3]", "\"shape\":[2,2]");
  ExpectError(StatusCode::kInvalidArgument, "its dtype and shape take 16");
}

TEST_F(SliceTest, HugeAndNegativeDimensionsAreErrors) {
  Change("\"shape\":[2,3]", "\"shape\":[4611686018427387904,4]");
  ExpectError(StatusCode::kInvalidArgument, "dimension");
}

TEST_F(SliceTest, NamesMayNotLeaveTheDirectory) {
  Change("\"name\":\"norms.bin\"", "\"name\":\"../norms.bin\"");
  ExpectError(StatusCode::kInvalidArgument, "not allowed");
}

TEST_F(SliceTest, AnIdentityThatIsNoneIsAnError) {
  Change(facts_.identity, "abc");
  ExpectError(StatusCode::kInvalidArgument, "identity");
}

TEST_F(SliceTest, AnotherVersionIsAnError) {
  Change("\"version\":3", "\"version\":4");
  ExpectError(StatusCode::kInvalidArgument, "version 4");
}

TEST_F(SliceTest, TheIdentityDependsOnEveryByteAndOnTheConfiguration) {
  MemorySource other;
  ASSERT_TRUE(other.AddF32("norm", {3}, {7, 8, 9}).ok());
  ASSERT_TRUE(other.AddF32("table", {2, 3}, {1, 2, 3, 4, 5, 6}).ok());
  EXPECT_EQ(ModelIdentity("{}", other), facts_.identity) << "the order of tensors does not count";
  EXPECT_NE(ModelIdentity("{ }", other), facts_.identity);
  MemorySource changed;
  ASSERT_TRUE(changed.AddF32("norm", {3}, {7, 8, 9}).ok());
  ASSERT_TRUE(changed.AddF32("table", {2, 3}, {1, 2, 3, 4, 5, 7}).ok());
  EXPECT_NE(ModelIdentity("{}", changed), facts_.identity);
}

}  // namespace
}  // namespace pergola::formats
