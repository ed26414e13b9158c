#include "hub/slice_publish.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"
#include "hub/digest.h"

namespace pergola::hub {
namespace {

namespace fs = std::filesystem;

class SlicePublishTest : public ::testing::Test {
 protected:
  SlicePublishTest() {
    folder_.Write("low/ffn.gguf", "weights");
    folder_.Write("low/config.json", "{}");
    folder_.Write(
        "low/index.json",
        R"({"format":"pergola-slice","version":3,"part":"ffn","layers":[0,1],"identity":")" +
            std::string(64, 'a') + R"(","files":[{"name":"ffn.gguf","bytes":7,"sha256":")" +
            Sha256("weights") + R"("},{"name":"config.json","bytes":2,"sha256":")" + Sha256("{}") +
            R"("}]})");
    index_ = ScanSlices(folder_.path())->front();
    index_.slice.name = "m-ffn-0-1";
  }
  Result<PublishOutcome> Publish(const std::string& card = "# card") {
    return PublishSlice(from_, index_, out_, card);
  }

  TempFolder folder_;
  const fs::path from_ = folder_.path() / "low", out_ = folder_.path() / "out";
  SliceIndex index_;
};

TEST_F(SlicePublishTest, CopiesOnceAndThenOnlyWhatChanged) {
  auto outcome = Publish();
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->copied_bytes, 9);
  const fs::path there = out_ / "m-ffn-0-1";
  EXPECT_EQ(ReadFile(there / "README.md"), "# card");
  ASSERT_TRUE(WriteSliceList(out_).ok());
  const auto list = ParseSliceList(ReadFile(out_ / "slices.json"));
  ASSERT_TRUE(list.ok() && list->size() == 1);
  EXPECT_EQ(list->front().name, "m-ffn-0-1");
  EXPECT_EQ(list->front().bytes, 9);
  const auto written = fs::last_write_time(there / "ffn.gguf");
  outcome = Publish("# another");
  EXPECT_EQ(outcome->copied_bytes, 0);
  EXPECT_EQ(outcome->unchanged_bytes, 9);
  EXPECT_EQ(fs::last_write_time(there / "ffn.gguf"), written);
  EXPECT_EQ(ReadFile(there / "README.md"), "# another");
  // Interrupted: a file half here, the index not yet.
  folder_.Write("out/m-ffn-0-1/ffn.gguf", "wei");
  fs::remove(there / "index.json");
  outcome = Publish();
  EXPECT_EQ(outcome->copied_bytes, 7);
  EXPECT_EQ(outcome->unchanged_bytes, 2);
  EXPECT_EQ(ReadFile(there / "ffn.gguf"), "weights");
  EXPECT_TRUE(fs::exists(there / "index.json"));
}

TEST_F(SlicePublishTest, ADamagedSliceIsNotPublished) {
  folder_.Write("low/ffn.gguf", "Weights");
  const Status status = Publish().status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("ffn.gguf"), std::string::npos) << status.message();
  EXPECT_FALSE(fs::exists(out_ / "m-ffn-0-1/index.json"));
  EXPECT_TRUE(ScanSlices(out_)->empty());
  fs::remove(from_ / "ffn.gguf");
  EXPECT_EQ(Publish().status().code(), StatusCode::kDataLoss);
}

TEST_F(SlicePublishTest, ASourceThatIsItsOwnTargetKeepsItsIndex) {
  index_.slice.name = "low";
  folder_.Write("low/ffn.gguf", "Weights");
  EXPECT_EQ(PublishSlice(from_, index_, folder_.path(), "").status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(fs::exists(from_ / "index.json"));
}

TEST_F(SlicePublishTest, AnotherModelsSliceIsNotReplaced) {
  ASSERT_TRUE(Publish().ok());
  const std::string index = ReadFile(out_ / "m-ffn-0-1/index.json");
  index_.slice.identity = std::string(64, 'b');
  const Status status = Publish().status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find(index_.slice.identity), std::string::npos) << status.message();
  EXPECT_EQ(ReadFile(out_ / "m-ffn-0-1/index.json"), index);
}

}  // namespace
}  // namespace pergola::hub
