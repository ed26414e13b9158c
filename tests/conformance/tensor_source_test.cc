// What every TensorSource does, whatever it reads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tensor_source_samples.h"

namespace pergola::formats {
namespace {

class TensorSourceTest : public testing::TestWithParam<SampleCase> {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tensor_source_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<TensorSource> Open(bool unsupported = false) {
    auto source = GetParam().open(folder_, unsupported);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return source.ok() ? std::move(*source) : nullptr;
  }

  std::string folder_;
};

void ExpectEqual(const TensorView& view, const SampleTensor& tensor) {
  EXPECT_EQ(view.dtype, tensor.dtype) << tensor.name;
  EXPECT_EQ(view.shape, tensor.shape) << tensor.name;
  ASSERT_EQ(static_cast<size_t>(view.bytes()), tensor.bytes.size()) << tensor.name;
  EXPECT_EQ(std::memcmp(view.data, tensor.bytes.data(), tensor.bytes.size()), 0) << tensor.name;
}

TEST_P(TensorSourceTest, GivesEveryTensorAsWritten) {
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->tensors().size(), SampleTensors().size());
  EXPECT_TRUE(source->unsupported().empty());
  for (const SampleTensor& tensor : SampleTensors()) {
    const Result<TensorView> view = source->Get(tensor.name);
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    ExpectEqual(*view, tensor);
    const Result<TensorView> same = source->Get(tensor.name, tensor.shape);
    ASSERT_TRUE(same.ok()) << same.status().ToString();
    EXPECT_EQ(same->data, view->data);
  }
}

TEST_P(TensorSourceTest, ListsTensorsInTheOrderOfTheFiles) {
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  const TensorInfo* before = nullptr;
  for (const TensorInfo& info : source->tensors()) {
    ASSERT_LT(info.file_index, source->files().size());
    if (before != nullptr) {
      EXPECT_TRUE(
          before->file_index < info.file_index ||
          (before->file_index == info.file_index &&
           before->file_offset + static_cast<uint64_t>(before->view.bytes()) <= info.file_offset))
          << info.name;
    }
    before = &info;
    EXPECT_EQ(source->Find(info.name), &info);
  }
}

TEST_P(TensorSourceTest, OffsetsLeadToTheBytesOfTheFile) {
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  if (source->format() == "memory") GTEST_SKIP() << "has no file";
  for (const TensorInfo& info : source->tensors()) {
    std::ifstream file(source->files()[info.file_index], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const auto size = static_cast<size_t>(info.view.bytes());
    ASSERT_LE(info.file_offset + size, bytes.size()) << info.name;
    EXPECT_EQ(std::memcmp(bytes.data() + info.file_offset, info.view.data, size), 0) << info.name;
  }
}

TEST_P(TensorSourceTest, NamesTheTensorAndTheFileThatLacksIt) {
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->Find("absent\n"), nullptr);
  const Status status = source->Get("absent\n").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("'absent\\x0a'"), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find(source->format() == "memory" ? "memory" : folder_),
            std::string::npos)
      << status.ToString();
}

TEST_P(TensorSourceTest, NamesBothShapesWhenTheyDiffer) {
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  const Status status = source->Get("model.layers.0.weight", {3, 2}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* part : {"'model.layers.0.weight'", "[2, 3]", "[3, 2]"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString();
  }
}

TEST_P(TensorSourceTest, SetsAsideATensorOfAnUnsupportedType) {
  const auto source = Open(true);
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->tensors().size(), SampleTensors().size() - 1);
  ASSERT_EQ(source->unsupported().size(), 1u);
  const UnsupportedTensor& other = source->unsupported()[0];
  EXPECT_EQ(other.name, "ids");
  EXPECT_EQ(other.shape, Shape{2});
  EXPECT_EQ(source->Find("ids"), nullptr);
  const Status status = source->Get("ids").status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("'ids'"), std::string::npos);
  EXPECT_NE(status.message().find(other.type + " not supported"), std::string::npos);
  for (const SampleTensor& tensor : SampleTensors()) {
    if (tensor.name == "ids") continue;
    const Result<TensorView> view = source->Get(tensor.name);
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    ExpectEqual(*view, tensor);
  }
}

TEST_P(TensorSourceTest, GivesMetadataOfTheRightTypeOnly) {
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->GetString("general.name"), kSampleName);
  EXPECT_EQ(source->GetString("general.nothing"), std::nullopt);
  EXPECT_EQ(source->GetInt("general.name"), std::nullopt);
  EXPECT_EQ(source->GetFloat("general.name"), std::nullopt);
  EXPECT_EQ(source->GetBool("general.name"), std::nullopt);
  EXPECT_EQ(source->GetStrings("general.name"), nullptr);
  EXPECT_EQ(source->GetInts("general.name"), nullptr);
  EXPECT_EQ(source->GetFloats("general.name"), nullptr);
}

TEST_P(TensorSourceTest, AnswersSeveralThreadsAtOnce) {
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  const auto read = [&source] {
    for (int i = 0; i < 100; ++i) {
      for (const SampleTensor& tensor : SampleTensors()) {
        ExpectEqual(source->Find(tensor.name)->view, tensor);
        EXPECT_EQ(source->GetString("general.name"), kSampleName);
      }
    }
  };
  std::thread other(read);
  read();
  other.join();
}

std::string NameOfCase(const testing::TestParamInfo<SampleCase>& sample) {
  return sample.param.name;
}

INSTANTIATE_TEST_SUITE_P(AllSources, TensorSourceTest, testing::ValuesIn(SampleCases()),
                         NameOfCase);

}  // namespace
}  // namespace pergola::formats
