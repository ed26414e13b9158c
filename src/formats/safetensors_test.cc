#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "formats/safetensors_writer.h"

namespace pergola::formats {
namespace {

class SafetensorsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "safetensors_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void WriteShard(const std::string& name, const char* tensor) const {
    const float value = 1;
    SafetensorsWriter writer;
    ASSERT_TRUE(
        writer.Add(tensor, {reinterpret_cast<const std::byte*>(&value), DType::kF32, {1}}).ok());
    ASSERT_TRUE(writer.Write(folder_ + "/" + name).ok());
  }
  std::string OpenIndexed(const std::string& index) const {
    std::ofstream(folder_ + "/model.safetensors.index.json") << index;
    const auto source = OpenSafetensors(folder_);
    return source.ok() ? "" : source.status().ToString();
  }

  std::string folder_;
};

TEST_F(SafetensorsTest, WriterGivesTheDocumentedBytes) {
  const float value = 1;
  SafetensorsWriter writer;
  writer.SetMetadata("k", "a\"\n");
  ASSERT_TRUE(
      writer.Add("x", {reinterpret_cast<const std::byte*>(&value), DType::kF32, {1, 1}}).ok());
  const std::string header =
      R"({"__metadata__":{"k":"a\"\u000a"},"x":{"dtype":"F32","shape":[1, 1],"data_offsets":[0,4]}})";
  const std::string bytes = writer.Bytes();
  const size_t padded = (header.size() + 7) / 8 * 8;
  ASSERT_EQ(bytes.size(), 8 + padded + 4);
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]), padded);
  EXPECT_EQ(bytes.substr(8, padded), header + std::string(padded - header.size(), ' '));
  EXPECT_EQ(bytes.substr(8 + padded), std::string("\0\0\x80\x3f", 4));
}

TEST_F(SafetensorsTest, WriterRefusesWhatTheFormatLacks) {
  const std::vector<std::byte> block(34);
  SafetensorsWriter writer;
  EXPECT_EQ(writer.Add("q", {block.data(), DType::kQ8_0, {32}}).code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(writer.Add("x", {block.data(), DType::kI8, {34}}).ok());
  EXPECT_EQ(writer.Add("x", {block.data(), DType::kI8, {34}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(writer.Add("__metadata__", {block.data(), DType::kI8, {34}}).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SafetensorsTest, EmptyModelIsSound) {
  const std::string bytes = SafetensorsWriter().Bytes();
  const auto source = ParseSafetensors(std::as_bytes(std::span<const char>(bytes)), "it");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  EXPECT_TRUE((*source)->tensors().empty());
}

TEST_F(SafetensorsTest, IndexNamesTensorsWhereTheyAre) {
  WriteShard("a.safetensors", "a");
  WriteShard("b.safetensors", "b");
  EXPECT_EQ(OpenIndexed(R"({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})"), "");
  const struct {
    const char* index;
    const char* error;
  } cases[] = {
      {R"({"weight_map": {"a": "b.safetensors", "b": "a.safetensors"}})",
       "tensor 'a': not in the shard 'b.safetensors'"},
      {R"({"weight_map": {"c": "a.safetensors"}})", "tensor 'c': not in the shard"},
      {R"({"weight_map": {"a": "../a.safetensors"}})", "is not the name of a file beside"},
      {R"({"weight_map": {"a": "/etc/passwd"}})", "is not the name of a file beside"},
      {R"({"weight_map": {"a": ".."}})", "is not the name of a file beside"},
      {R"({"weight_map": {"a": "x\u0000y"}})", "is not the name of a file beside"},
      {R"({"weight_map": {"a": ""}})", "is not the name of a file beside"},
      {R"({"weight_map": {"a": 1}})", "is not the name of a file beside"},
      {R"({"weight_map": {"a": "a.safetensors", "a": "b.safetensors"}})", "name is there twice"},
      {R"({"weight_map": {"a": "none.safetensors"}})", "NOT_FOUND"},
      {R"({"weight_map": {}})", "'weight_map' is empty"},
      {R"({"weight_map": []})", "no object 'weight_map'"},
      {R"([])", "no object 'weight_map'"},
      {R"({"weight_map": )", "not valid JSON"},
  };
  for (const auto& [index, error] : cases) {
    const std::string status = OpenIndexed(index);
    EXPECT_NE(status.find(error), std::string::npos) << index << "\n" << status;
  }
}

TEST_F(SafetensorsTest, TheSameTensorInTwoShardsIsAnError) {
  WriteShard("a.safetensors", "a");
  WriteShard("b.safetensors", "a");
  const std::string status =
      OpenIndexed(R"({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})");
  EXPECT_NE(status.find("tensor 'a' at offset"), std::string::npos) << status;
  EXPECT_NE(status.find("there twice"), std::string::npos) << status;
}

TEST_F(SafetensorsTest, FolderWithoutAModelIsNotFound) {
  EXPECT_EQ(OpenTensorSource(folder_).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenTensorSource(folder_ + "/x.gguf").status().code(), StatusCode::kNotFound);
  std::ofstream(folder_ + "/x.gguf") << "{}";
  EXPECT_NE(OpenTensorSource(folder_ + "/x.gguf").status().message().find("magic"),
            std::string::npos);
}

}  // namespace
}  // namespace pergola::formats
