#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "formats/gguf_writer.h"

namespace pergola::formats {
namespace {

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

class GgufTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "gguf_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A shard with one tensor.
  void WriteShard(const std::string& name, int16_t number, int16_t count,
                  const char* tensor) const {
    GgufWriter writer;
    writer.SetRaw("split.no", GgufValueType::kInt16, {reinterpret_cast<char*>(&number), 2});
    writer.SetRaw("split.count", GgufValueType::kInt16, {reinterpret_cast<char*>(&count), 2});
    writer.SetInt32("split.tensors.count", 2);
    const float value = static_cast<float>(number);
    ASSERT_TRUE(
        writer.Add(tensor, {reinterpret_cast<const std::byte*>(&value), DType::kF32, {1}}).ok());
    ASSERT_TRUE(writer.Write(folder_ + "/" + name).ok());
  }

  std::string folder_;
};

TEST_F(GgufTest, ReversesDimensions) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  GgufWriter writer;
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  ASSERT_TRUE(writer.Add("x", {data, DType::kF32, {2, 3}}).ok());
  const std::string bytes = writer.Bytes();
  // Name "x", rank, then the innermost dimension.
  EXPECT_EQ(bytes[24 + 8 + 1], 2);
  EXPECT_EQ(bytes[24 + 8 + 1 + 4], 3);
  const auto source = ParseGguf(AsBytes(bytes), "it");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_TRUE((*source)->Get("x", {2, 3}).ok());
}

TEST_F(GgufTest, ReadsVersion2LikeVersion3) {
  const float value = 1;
  GgufWriter writer;
  writer.SetUint64("key", uint64_t{1} << 63);
  ASSERT_TRUE(writer.Add("x", {reinterpret_cast<const std::byte*>(&value), DType::kF32, {1}}).ok());
  std::string bytes = writer.Bytes();
  ASSERT_EQ(bytes[4], 3);
  bytes[4] = 2;
  const auto source = ParseGguf(AsBytes(bytes), "it");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_TRUE((*source)->Get("x", {1}).ok());
  EXPECT_EQ(std::get<uint64_t>((*source)->metadata().at("key").value), uint64_t{1} << 63);
}

TEST_F(GgufTest, WriterKeepsToItsAlignment) {
  const std::vector<std::byte> bytes(3);
  GgufWriter writer;
  writer.SetAlignment(128);
  ASSERT_TRUE(writer.Add("a", {bytes.data(), DType::kI8, {3}}).ok());
  ASSERT_TRUE(writer.Add("b", {bytes.data(), DType::kI8, {3}}).ok());
  EXPECT_EQ(writer.Add("a", {bytes.data(), DType::kI8, {3}}).code(), StatusCode::kInvalidArgument);
  const std::string file = writer.Bytes();
  EXPECT_EQ(file.size() % 128, 0u);
  const auto source = ParseGguf(AsBytes(file), "it");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*source)->Find("b")->file_offset - (*source)->Find("a")->file_offset, 128u);
}

TEST_F(GgufTest, VocabularyIsViewsIntoTheFile) {
  std::vector<std::string> words;
  for (int i = 0; i < 1000; ++i) words.push_back("word" + std::to_string(i));
  words.push_back(std::string("\xff\x00 not UTF-8", 12));
  GgufWriter writer;
  writer.SetStrings("tokenizer.ggml.tokens", words);
  const std::string bytes = writer.Bytes();
  const auto source = ParseGguf(AsBytes(bytes), "it");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  const auto* tokens = (*source)->GetStrings("tokenizer.ggml.tokens");
  ASSERT_NE(tokens, nullptr);
  ASSERT_EQ(tokens->size(), words.size());
  for (size_t i = 0; i < words.size(); ++i) EXPECT_EQ((*tokens)[i], words[i]);
  EXPECT_GE(tokens->front().data(), bytes.data());
  EXPECT_LT(tokens->back().data(), bytes.data() + bytes.size());
}

TEST_F(GgufTest, KeepsAnArrayOfUint64ThatDoesNotFitIntoInt64) {
  std::string payload("\x0a\0\0\0\x02\0\0\0\0\0\0\0", 12);
  payload += std::string("\x01\0\0\0\0\0\0\0", 8) + std::string(8, '\xff');
  GgufWriter writer;
  writer.SetRaw("key", GgufValueType::kArray, payload);
  const std::string bytes = writer.Bytes();
  const auto source = ParseGguf(AsBytes(bytes), "it");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  const auto& values = std::get<MetadataArray>((*source)->metadata().at("key").value);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(std::get<int64_t>(values[0].value), 1);
  EXPECT_EQ(std::get<uint64_t>(values[1].value), ~uint64_t{0});
}

TEST_F(GgufTest, SplitModelNeedsItsFilesInOrder) {
  WriteShard("m-00001-of-00002.gguf", 0, 2, "a");
  const std::string first = folder_ + "/m-00001-of-00002.gguf";
  EXPECT_EQ(OpenGguf(first).status().code(), StatusCode::kNotFound);
  WriteShard("m-00002-of-00002.gguf", 0, 2, "b");
  EXPECT_NE(OpenGguf(first).status().message().find("split.no and split.count are not 1 and 2"),
            std::string::npos);
  WriteShard("m-00002-of-00002.gguf", 1, 2, "a");
  EXPECT_NE(OpenGguf(first).status().message().find("tensor 'a'"), std::string::npos);
  WriteShard("m-00002-of-00002.gguf", 1, 2, "b");
  const auto source = OpenGguf(first);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_EQ((*source)->files().size(), 2u);
  EXPECT_EQ((*source)->Find("b")->file_index, 1u);
  EXPECT_NE(OpenGguf(folder_ + "/m-00002-of-00002.gguf").status().message().find("the first one"),
            std::string::npos);
  std::filesystem::rename(first, folder_ + "/renamed.gguf");
  EXPECT_NE(OpenGguf(folder_ + "/renamed.gguf").status().message().find("-00001-of-00002.gguf"),
            std::string::npos);
}

TEST_F(GgufTest, AFileThatCannotBeWrittenLeavesNothingBehind) {
  std::filesystem::create_directory(folder_ + "/taken");
  std::filesystem::create_directory(folder_ + "/taken/inside");
  GgufWriter writer;
  EXPECT_EQ(writer.Write(folder_ + "/taken").code(), StatusCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/taken.part"));
  EXPECT_EQ(writer.Write(folder_ + "/none/x.gguf").code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace pergola::formats
