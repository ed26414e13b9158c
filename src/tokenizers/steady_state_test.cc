// What a server relies on after the first requests: no allocation per call, and time that grows
// with the text, whatever the text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <new>
#include <string>
#include <string_view>

#include "tokenizers/tokenizer.h"

// A sanitizer brings its own allocator, which checks that the two sides fit: nothing is counted
// then.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;
#endif

namespace {

thread_local size_t num_allocations = 0;

[[maybe_unused]] void* Allocate(size_t size) {
  ++num_allocations;
  void* memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Of the whole test binary.
void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t /*size*/) noexcept { std::free(memory); }
#endif

namespace pergola::tokenizers {
namespace {

constexpr const char* kTokenizers[] = {
    "tiny/bert/tokenizer.json",         "tiny/gemma3-embed/tokenizer.json",
    "tiny/qwen3-embed/tokenizer.json",  "tiny/roberta/tokenizer.json",
    "tiny/xlm-roberta/tokenizer.json",  "tiny/xlm-roberta-reranker/tokenizer.json",
    "tokenizers/byte_level_o200k.json", "tokenizers/unigram_bytes.json"};

std::unique_ptr<Tokenizer> LoadGolden(const std::string& path) {
  auto tokenizer = LoadTokenizerJson(std::string(PERGOLA_TEST_DATA) + "/golden/" + path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

class SteadyStateTest : public testing::TestWithParam<const char*> {};

TEST_P(SteadyStateTest, EncodingAllocatesNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "a sanitizer's allocator is in use";
  const auto tokenizer = LoadGolden(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const std::string texts[] = {"hello world, how are you?",
                               "re\u0301sume\u0301 \ufb01ne \uff21\uff22 \u2460 \x01 \u0915\u093f",
                               "\u4e2d\u6587\u3002 <mask> [MASK] </s>",
                               std::string(3000, 'a') + " b",
                               "a " + std::string(9000, ' ') + "b\n\n\n don't"};
  Encoding encoding;
  const auto encode_all = [&] {
    for (const std::string& text : texts) {
      for (const bool with_offsets : {false, true}) {
        for (const size_t limit : {size_t{16}, size_t{100000}}) {
          const EncodeOptions options{.with_offsets = with_offsets, .max_tokens = limit};
          ASSERT_TRUE(tokenizer->Encode(text, options, &encoding).ok());
          ASSERT_TRUE(tokenizer->EncodePair(text, texts[0], options, &encoding).ok());
        }
      }
    }
  };
  encode_all();
  encode_all();
  const size_t before = num_allocations;
  encode_all();
  EXPECT_EQ(num_allocations, before);
}

// Sixteen times the text may take sixteen times as long, and some for caches that are too small.
TEST_P(SteadyStateTest, TimeIsLinearInHostileText) {
  const auto tokenizer = LoadGolden(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string unit :
       {"a", "\u0301", "\u4e2d", " ", "\u1100", "'", "\n", "\x01", "\U0001F468\u200d", "a\u0301"}) {
    Encoding encoding;
    const auto cpu_seconds = [&](size_t bytes) {
      std::string text;
      while (text.size() < bytes) text += unit;
      double best = 1e9;
      for (int i = 0; i < 2; ++i) {
        const std::clock_t start = std::clock();
        EXPECT_TRUE(tokenizer->Encode(text, {.with_offsets = true}, &encoding).ok());
        best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
      }
      return best;
    };
    // A quadratic step would make it 256 times as long; a busy machine does not.
    EXPECT_LT(cpu_seconds(size_t{64} << 10), 100 * cpu_seconds(size_t{4} << 10) + 0.01) << unit;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, SteadyStateTest, testing::ValuesIn(kTokenizers),
                         [](const auto& model) {
                           std::string name = model.param;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace pergola::tokenizers
