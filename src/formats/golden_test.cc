// Files written by the formats' own Python packages (tests/golden/formats/make_format_goldens.py).
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "formats/tensor_source.h"

namespace pergola::formats {
namespace {

std::unique_ptr<TensorSource> Open(const std::string& name) {
  auto source = OpenTensorSource(PERGOLA_TEST_DATA "/golden/formats/" + name);
  EXPECT_TRUE(source.ok()) << source.status().ToString();
  return source.ok() ? std::move(*source) : nullptr;
}

template <typename T>
std::vector<T> Values(const TensorSource& source, std::string_view name) {
  const Result<TensorView> view = source.Get(name);
  EXPECT_TRUE(view.ok()) << view.status().ToString();
  if (!view.ok()) return {};
  std::vector<T> values(static_cast<size_t>(view->bytes()) / sizeof(T));
  std::memcpy(values.data(), view->data, static_cast<size_t>(view->bytes()));
  return values;
}

void ExpectCommonTensors(const TensorSource& source) {
  EXPECT_EQ(Values<float>(source, "matrix"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(source.Get("matrix", {2, 3}).ok());
  EXPECT_EQ(source.Find("matrix")->view.dtype, DType::kF32);
  EXPECT_EQ(Values<uint16_t>(source, "halves"), (std::vector<uint16_t>{0x3800, 0xC000, 0x7BFF}));
  EXPECT_EQ(source.Find("halves")->view.dtype, DType::kF16);
  EXPECT_EQ(Values<int8_t>(source, "bytes"), (std::vector<int8_t>{-128, 127}));
  EXPECT_TRUE(source.Get("bytes", {1, 2}).ok());
  EXPECT_EQ(Values<int32_t>(source, "words"), (std::vector<int32_t>{7, -7}));
  ASSERT_EQ(source.unsupported().size(), 1u);
  EXPECT_EQ(source.unsupported()[0].name, "long");
  EXPECT_EQ(source.Get("long").status().code(), StatusCode::kUnimplemented);
}

TEST(GoldenTest, ReadsSafetensorsOfThePythonPackage) {
  const auto source = Open("python.safetensors");
  ASSERT_NE(source, nullptr);
  ExpectCommonTensors(*source);
  EXPECT_EQ(Values<float>(*source, "scalar"), std::vector<float>{1.5f});
  EXPECT_TRUE(source->Get("scalar", Shape()).ok());
  EXPECT_EQ(source->unsupported()[0].type, "I64");
  EXPECT_EQ(source->unsupported()[0].bytes, 8u);
  EXPECT_EQ(source->GetString("format"), "np");
  EXPECT_EQ(source->GetString("key"), "grüße \"x\"");
}

TEST(GoldenTest, ReadsTensorsOfThePythonGgufPackage) {
  const auto source = Open("python.gguf");
  ASSERT_NE(source, nullptr);
  ExpectCommonTensors(*source);
  EXPECT_EQ(source->unsupported()[0].type, "type 27");
  const Result<TensorView> q8 = source->Get("q8", {2, 32});
  ASSERT_TRUE(q8.ok()) << q8.status().ToString();
  EXPECT_EQ(q8->dtype, DType::kQ8_0);
  EXPECT_EQ(q8->bytes(), 68);
  for (const TensorInfo& info : source->tensors()) EXPECT_EQ(info.file_offset % 64, 0u);
}

TEST(GoldenTest, ReadsEveryMetadataTypeOfThePythonGgufPackage) {
  const auto source = Open("python.gguf");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->GetInt("general.alignment"), 64);
  EXPECT_EQ(source->GetString("general.architecture"), "bert");
  EXPECT_EQ(source->GetInt("t.u8"), 255);
  EXPECT_EQ(source->GetInt("t.i8"), -128);
  EXPECT_EQ(source->GetInt("t.u16"), 65535);
  EXPECT_EQ(source->GetInt("t.i16"), -32768);
  EXPECT_EQ(source->GetInt("t.u32"), 4294967295);
  EXPECT_EQ(source->GetInt("t.i32"), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(source->GetInt("t.i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(source->GetInt("t.u64"), std::nullopt) << "does not fit";
  const MetadataValue& u64 = source->metadata().find("t.u64")->second;
  EXPECT_EQ(std::get<uint64_t>(u64.value), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(source->GetFloat("t.f32"), static_cast<double>(0.1f));
  EXPECT_EQ(source->GetFloat("t.f64"), 0.1);
  EXPECT_EQ(source->GetBool("t.bool"), true);
  EXPECT_EQ(source->GetInt("t.bool"), std::nullopt);
  EXPECT_EQ(source->GetString("t.string"), "grüße");
}

TEST(GoldenTest, ReadsArraysOfThePythonGgufPackage) {
  const auto source = Open("python.gguf");
  ASSERT_NE(source, nullptr);
  ASSERT_NE(source->GetStrings("t.strings"), nullptr);
  EXPECT_EQ(*source->GetStrings("t.strings"), (std::vector<std::string_view>{"a", "", "ü"}));
  ASSERT_NE(source->GetInts("t.ints"), nullptr);
  EXPECT_EQ(*source->GetInts("t.ints"), (std::vector<int64_t>{1, -2, 3}));
  ASSERT_NE(source->GetFloats("t.floats"), nullptr);
  EXPECT_EQ(*source->GetFloats("t.floats"), (std::vector<float>{0.5f, -1.5f}));
  const auto& bools = std::get<MetadataArray>(source->metadata().find("t.bools")->second.value);
  ASSERT_EQ(bools.size(), 2u);
  EXPECT_TRUE(std::get<bool>(bools[0].value));
  EXPECT_FALSE(std::get<bool>(bools[1].value));
  const auto& nested = std::get<MetadataArray>(source->metadata().find("t.nested")->second.value);
  ASSERT_EQ(nested.size(), 2u);
  EXPECT_EQ(std::get<std::vector<int64_t>>(nested[0].value), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(std::get<std::vector<int64_t>>(nested[1].value), (std::vector<int64_t>{3}));
}

}  // namespace
}  // namespace pergola::formats
