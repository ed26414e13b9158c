#include <gtest/gtest.h>

#include "hub/hub_source.h"

namespace pergola::hub {
namespace {

RemoteFile File(const std::string& path) { return {path, 1, std::string(64, 'a'), ""}; }

std::vector<RemoteFile> Files(const std::vector<std::string>& paths) {
  std::vector<RemoteFile> files;
  for (const std::string& path : paths) files.push_back(File(path));
  return files;
}

std::vector<std::string> Selected(const std::vector<std::string>& paths) {
  std::vector<std::string> selected;
  const SourceListing listing = SelectFiles(Files(paths), "").value();
  for (const RemoteFile& file : listing.files) selected.push_back(file.path);
  return selected;
}

TEST(ParseTreeTest, ReadsLargeAndSmallFilesAndSkipsFolders) {
  const std::string sha256(64, 'b');
  const std::string sha1(40, 'c');
  const auto files = ParseTree(R"([{"type":"directory","path":"onnx","size":0,"oid":"x"},
      {"type":"file","path":"config.json","size":612,"oid":")" +
                               sha1 + R"("},
      {"type":"file","path":"model.safetensors","size":90,"oid":")" +
                               sha1 + R"(","lfs":{"oid":")" + sha256 + R"(","size":90}}])");
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].git_sha1, sha1);
  EXPECT_EQ((*files)[0].bytes, 612);
  EXPECT_EQ((*files)[1].sha256, sha256);
  EXPECT_EQ((*files)[1].git_sha1, "");
}

TEST(ParseTreeTest, HostileListingsAreErrors) {
  const std::string oid = R"(","size":1,"oid":"cccccccccccccccccccccccccccccccccccccccc"}])";
  EXPECT_EQ(ParseTree(R"([{"type":"file","path":"../x)" + oid).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseTree(R"([{"type":"file","path":"/etc/x)" + oid).status().code(),
            StatusCode::kInvalidArgument);
  for (
      const char* json :
      {"", "{", "{}", "[1]", R"([{"type":"file"}])", R"([{"type":"file","path":"a"}])",
       R"([{"type":"file","path":"a","size":-1,"oid":"cccccccccccccccccccccccccccccccccccccccc"}])",
       R"([{"type":"file","path":"a","size":1,"oid":"short"}])"}) {
    EXPECT_EQ(ParseTree(json).status().code(), StatusCode::kDataLoss) << json;
  }
}

TEST(SelectFilesTest, TakesWeightsAndConfigurationOnly) {
  EXPECT_EQ(
      Selected({".gitattributes", "README.md", "config.json", "modules.json", "vocab.txt",
                "1_Pooling/config.json", "2_Dense/model.safetensors", "model.safetensors",
                "pytorch_model.bin", "onnx/model.onnx", "onnx/config.json",
                "model.fp16.safetensors", "spiece.model"}),
      (std::vector<std::string>{"config.json", "modules.json", "vocab.txt", "1_Pooling/config.json",
                                "2_Dense/model.safetensors", "model.safetensors", "spiece.model"}));
}

TEST(SelectFilesTest, TakesAllShards) {
  EXPECT_EQ(Selected({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                      "model.safetensors.index.json"})
                .size(),
            3u);
}

TEST(SelectFilesTest, OneGgufFileIsTheModel) {
  const SourceListing listing = SelectFiles(Files({"README.md", "x-Q8_0.gguf"}), "").value();
  EXPECT_EQ(listing.entry, "x-Q8_0.gguf");
  EXPECT_EQ(listing.files.size(), 1u);
}

TEST(SelectFilesTest, VariantChoosesAmongGgufFiles) {
  const auto files = Files({"x-Q8_0.gguf", "x-Q4_0.gguf", "mmproj-x-Q4_0.gguf"});
  EXPECT_EQ(SelectFiles(files, "q4_0").value().entry, "x-Q4_0.gguf");
  const Status several = SelectFiles(files, "").status();
  EXPECT_EQ(several.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(several.message().find("x-Q8_0.gguf, x-Q4_0.gguf"), std::string::npos);
  EXPECT_EQ(SelectFiles(files, "Q5_K").status().code(), StatusCode::kNotFound);
}

TEST(SelectFilesTest, NoWeightsIsNotFound) {
  EXPECT_EQ(SelectFiles(Files({"README.md", "pytorch_model.bin"}), "").status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace pergola::hub
