// Slices come from folders whole and checked, or not at all. Over HTTP: tests/split/spare_test.py.
#include "hub/slice_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/testing/temp_folder.h"
#include "hub/digest.h"

namespace pergola::hub {
namespace {

namespace fs = std::filesystem;

void WriteText(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string IndexOf(const std::string& file, const std::string& content) {
  return R"({"format":"pergola-slice","version":3,"part":"ffn","layers":[2,5],"identity":")" +
         std::string(64, 'a') + R"(","files":[{"name":")" + file + R"(","bytes":)" +
         std::to_string(content.size()) + R"(,"sha256":")" + Sha256(content) + R"("}]})";
}

class SliceStoreTest : public ::testing::Test {
 protected:
  SliceStoreTest() {
    WriteText(folder_.path() / "from/high/ffn.gguf", "bytes of weights");
    WriteText(folder_.path() / "from/high/index.json", IndexOf("ffn.gguf", "bytes of weights"));
    WriteText(folder_.path() / "from/notes/README.md", "no slice");
  }
  TempFolder folder_;
};

TEST_F(SliceStoreTest, BringsASliceAndChecksIt) {
  const SliceSource source((folder_.path() / "from").string(), {});
  const auto offered = source.List();
  ASSERT_TRUE(offered.ok() && offered->size() == 1) << offered.status().ToString();
  EXPECT_EQ(offered->front().name, "high");
  EXPECT_EQ(offered->front().part, "ffn");
  EXPECT_EQ(offered->front().first_layer, 2);
  EXPECT_EQ(offered->front().last_layer, 5);
  EXPECT_EQ(offered->front().bytes, 16);
  const auto list = ParseSliceList(SliceListJson(*offered));
  ASSERT_TRUE(list.ok()) << list.status().ToString();
  EXPECT_EQ(list->front().identity, std::string(64, 'a'));
  const auto here = source.Fetch(offered->front(), folder_.path() / "store");
  ASSERT_TRUE(here.ok()) << here.status().ToString();
  EXPECT_EQ(ReadFile(*here / "ffn.gguf"), "bytes of weights");
  EXPECT_EQ(ReadFile(*here / "index.json"), IndexOf("ffn.gguf", "bytes of weights"));
  // A second time nothing is fetched; what is damaged meanwhile is.
  fs::rename(folder_.path() / "from/high/ffn.gguf", folder_.path() / "kept");
  EXPECT_TRUE(source.Fetch(offered->front(), folder_.path() / "store").ok());
  WriteText(*here / "ffn.gguf", "bytes of Weights");
  EXPECT_FALSE(source.Fetch(offered->front(), folder_.path() / "store").ok());
  fs::rename(folder_.path() / "kept", folder_.path() / "from/high/ffn.gguf");
  EXPECT_TRUE(source.Fetch(offered->front(), folder_.path() / "store").ok());
  EXPECT_EQ(ReadFile(*here / "ffn.gguf"), "bytes of weights");
}

TEST_F(SliceStoreTest, WhatIsLeftOfAPlaceIsReplaced) {
  const SliceSource source((folder_.path() / "from").string(), {});
  const OfferedSlice offered = source.List()->front();
  const auto here = source.Fetch(offered, folder_.path() / "store");
  ASSERT_TRUE(here.ok()) << here.status().ToString();
  fs::remove(*here / "index.json");
  const auto again = source.Fetch(offered, folder_.path() / "store");
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(ReadFile(*again / "ffn.gguf"), "bytes of weights");
  EXPECT_TRUE(fs::exists(*again / "index.json"));
}

// A file larger than the disk has room for.
TEST_F(SliceStoreTest, WhatIsHereAlreadyNeedsNoRoom) {
  const auto large =
      static_cast<int64_t>(2 * fs::space(folder_.path()).available) + (int64_t{1} << 30);
  std::string index = IndexOf("ffn.gguf", "bytes of weights");
  const size_t files = index.find("[{");
  index.insert(files + 1, R"({"name":"large","bytes":)" + std::to_string(large) + R"(,"sha256":")" +
                              std::string(64, '0') + "\"},");
  WriteText(folder_.path() / "from/high/index.json", index);
  const SliceSource source((folder_.path() / "from").string(), {});
  const OfferedSlice offered = source.List()->front();
  const fs::path store = folder_.path() / "store";
  EXPECT_EQ(source.Fetch(offered, store).status().code(), StatusCode::kResourceExhausted);
  const fs::path partial = store / ("partial-ffn-2-5-" + std::string(16, 'a'));
  ASSERT_TRUE(fs::exists(partial));
  WriteText(partial / "large", "");
  fs::resize_file(partial / "large", static_cast<uintmax_t>(large) - 1);  // a hole
  EXPECT_NE(source.Fetch(offered, store).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(SliceStoreTest, ControlCharactersAreEscapedInAList) {
  OfferedSlice slice;
  slice.name = "a";
  slice.part = "ffn\x01";
  EXPECT_NE(SliceListJson(std::span(&slice, 1)).find(R"("part":"ffn\u0001")"), std::string::npos);
}

TEST_F(SliceStoreTest, PartsThatAreNoNameAndSizesThatOverflowAreRefused) {
  for (const char* part : {"", "../x", "a/b", "ffn\\n", "FFN"}) {
    std::string index = IndexOf("x", "x");
    index.replace(index.find("\"ffn\""), 5, "\"" + std::string(part) + "\"");
    EXPECT_EQ(ParseSliceIndex("s", index).status().code(), StatusCode::kDataLoss) << part;
  }
  std::string index = IndexOf("x", "x");
  index.insert(index.find("[{") + 1, R"({"name":"y","bytes":9223372036854775807,"sha256":")" +
                                         std::string(64, '0') + "\"},");
  EXPECT_EQ(ParseSliceIndex("s", index).status().code(), StatusCode::kDataLoss);
}

TEST_F(SliceStoreTest, WrongBytesNeverAppear) {
  WriteText(folder_.path() / "from/high/ffn.gguf", "bytes of Weights");
  const SliceSource source((folder_.path() / "from").string(), {});
  const auto offered = source.List();
  ASSERT_TRUE(offered.ok());
  const Status status = source.Fetch(offered->front(), folder_.path() / "store").status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("ffn.gguf"), std::string::npos) << status.message();
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "store")) {
    EXPECT_NE(entry.path().filename(), "ffn.gguf");
    EXPECT_NE(entry.path().filename(), "index.json");
  }
}

TEST_F(SliceStoreTest, AnotherSliceThanOfferedIsRefused) {
  const SliceSource source((folder_.path() / "from").string(), {});
  OfferedSlice wanted = source.List()->front();
  wanted.identity = std::string(64, 'b');
  EXPECT_EQ(source.Fetch(wanted, folder_.path() / "store").status().code(), StatusCode::kDataLoss);
  wanted.name = "../from/high";
  EXPECT_EQ(source.Fetch(wanted, folder_.path() / "store").status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SliceStoreTest, NamesThatWouldLieElsewhereAreRefused) {
  for (const char* name : {"../x", "a/b", "/etc/x", "..", ".", ".hidden", "a\\\\b", "index.json"}) {
    const auto index = ParseSliceIndex("s", IndexOf(name, "x"));
    EXPECT_EQ(index.status().code(), StatusCode::kDataLoss) << name;
  }
  EXPECT_TRUE(ParseSliceIndex("s", IndexOf("x", "x")).ok());
  for (const char* json : {"", "[]", "{}", R"({"format":"pergola-slice"})",
                           R"({"format":"pergola-slice","files":[]})"}) {
    EXPECT_EQ(ParseSliceIndex("s", json).status().code(), StatusCode::kDataLoss) << json;
  }
  for (const char* json :
       {"", "{}", R"({"slices":[{}]})", R"({"slices":[{"name":"../x","bytes":1,"part":"ffn"}]})"}) {
    EXPECT_FALSE(ParseSliceList(json).ok()) << json;
  }
}

}  // namespace
}  // namespace pergola::hub
