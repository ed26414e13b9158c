#include "engine/quantiser.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/testing/temp_folder.h"
#include "engine/model.h"
#include "kernels/quantise.h"

namespace pergola::engine {
namespace {

std::string Tiny(const std::string& name) {
  return std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + name;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class QuantiserTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }
  TempFolder folder_;
};

TEST_F(QuantiserTest, MatricesAreQuantisedAndAllElseIsCopied) {
  const auto quantiser = Quantiser::Open(Tiny("bert/model.gguf"));
  ASSERT_TRUE(quantiser.ok()) << quantiser.status().ToString();
  EXPECT_EQ((*quantiser)->units(),
            (std::vector<std::string>{"token_embd", "blk.0", "blk.1", "blk.2"}));
  ASSERT_TRUE((*quantiser)->Write((*quantiser)->Uniform(DType::kQ4_0), Path("q4.gguf")).ok());
  const auto before = *formats::OpenTensorSource(Tiny("bert/model.gguf"));
  const auto after = *formats::OpenTensorSource(Path("q4.gguf"));
  EXPECT_EQ(after->GetInt("general.file_type"), 2);
  EXPECT_EQ(after->GetInt("general.quantization_version"), 2);
  EXPECT_EQ(after->GetInt("bert.block_count"), before->GetInt("bert.block_count"));
  EXPECT_EQ(*after->GetStrings("tokenizer.ggml.tokens"),
            *before->GetStrings("tokenizer.ggml.tokens"));
  for (const formats::TensorInfo& tensor : before->tensors()) {
    const TensorView view = *after->Get(tensor.name, tensor.view.shape);
    const bool matrix = tensor.name.starts_with("blk.") && tensor.view.shape.rank == 2 &&
                        tensor.view.cols() % 32 == 0;
    EXPECT_EQ(view.dtype, tensor.name == "token_embd.weight" ? DType::kQ8_0
                          : matrix                           ? DType::kQ4_0
                                                             : DType::kF32)
        << tensor.name;
    if (view.dtype != DType::kQ4_0) continue;
    std::vector<std::byte> row(static_cast<size_t>(view.row_bytes()));
    kernels::QuantiseRow(DType::kQ4_0, reinterpret_cast<const float*>(tensor.view.row(1)),
                         view.cols(), row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), view.row(1))) << tensor.name;
  }
  EXPECT_TRUE(Model::Load(Path("q4.gguf"), {}).ok());
}

TEST_F(QuantiserTest, TheSamePlanGivesTheSameBytesAndLeavesNothingBeside) {
  const auto quantiser = *Quantiser::Open(Tiny("qwen2/model.gguf"));
  QuantisationPlan plan = quantiser->Uniform(DType::kQ8_0);
  plan["blk.1"] = DType::kF16;
  ASSERT_TRUE(quantiser->Write(plan, Path("a.gguf")).ok());
  ASSERT_TRUE(quantiser->Write(plan, Path("b.gguf")).ok());
  EXPECT_TRUE(ReadAll(Path("a.gguf")) == ReadAll(Path("b.gguf")));
  const std::filesystem::directory_iterator files(folder_.path());
  EXPECT_EQ(std::distance(files, std::filesystem::directory_iterator()), 2);
  // Without a plan everything is copied.
  const auto again = *Quantiser::Open(Path("a.gguf"));
  ASSERT_TRUE(again->Write({}, Path("c.gguf")).ok());
  EXPECT_TRUE(ReadAll(Path("c.gguf")) == ReadAll(Path("a.gguf")));
}

TEST_F(QuantiserTest, SaysWhyItCannot) {
  const Status safetensors = Quantiser::Open(Tiny("deberta")).status();
  EXPECT_EQ(safetensors.code(), StatusCode::kUnimplemented);
  EXPECT_NE(safetensors.message().find("'deberta-v2'"), std::string::npos);
  EXPECT_EQ(Quantiser::Open(Path("none.gguf")).status().code(), StatusCode::kNotFound);
  const auto quantiser = *Quantiser::Open(Tiny("bert/model.gguf"));
  EXPECT_FALSE(quantiser->Write({}, Path("no-folder/a.gguf")).ok());
}

}  // namespace
}  // namespace pergola::engine
