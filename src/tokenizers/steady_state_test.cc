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

// Every model and every set of parts: WordPiece; BPE of code points (Gemma, SentencePiece with a
// prefix); byte-level BPE (GPT-2, Qwen2, Llama 3 and o200k patterns, with NFC); Unigram.
constexpr const char* kTokenizers[] = {"tiny/bert/tokenizer.json",
                                       "tiny/gemma3-embed/tokenizer.json",
                                       "tiny/llama-spm-rope3/tokenizer.json",
                                       "tiny/qwen3-embed/tokenizer.json",
                                       "tiny/llama/tokenizer.json",
                                       "tiny/roberta/tokenizer.json",
                                       "tiny/modernbert/tokenizer.json",
                                       "tiny/xlm-roberta/tokenizer.json",
                                       "tiny/xlm-roberta-reranker/tokenizer.json",
                                       "tokenizers/byte_level_o200k.json",
                                       "tokenizers/unigram_bytes.json"};

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

// CPU seconds of one call on `unit` repeated; the shortest of `runs`.
double CpuSeconds(const Tokenizer& tokenizer, const std::string& unit, size_t bytes, int runs) {
  std::string text;
  while (text.size() < bytes) text += unit;
  Encoding encoding;
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const std::clock_t start = std::clock();
    EXPECT_TRUE(tokenizer.Encode(text, {.with_offsets = true}, &encoding).ok());
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

// Sixteen times the text may take sixteen times as long, and some for caches that are too small. A
// quadratic step would make it 256 times as long; a busy machine does not.
TEST_P(SteadyStateTest, TimeIsLinearInHostileText) {
  const auto tokenizer = LoadGolden(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string unit : {"a", "\u0301", "\u4e2d", " ", "\u1100", "'", "\n", "\x01",
                                 "\U0001F468\u200d", "a\u0301", "a  "}) {
    EXPECT_LT(CpuSeconds(*tokenizer, unit, size_t{64} << 10, 2),
              100 * CpuSeconds(*tokenizer, unit, size_t{4} << 10, 2) + 0.01)
        << unit;
  }
}

// A mebibyte of one letter, of combining marks, of one ideograph: a quadratic step takes 4,096
// times as long as for 16 KiB, a linear one 64 times. The limit, 500 times, leaves both room.
TEST_P(SteadyStateTest, AMebibyteOfOneCharacterTakesLinearTime) {
  const auto tokenizer = LoadGolden(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string unit : {"a", "\u0301", "\u4e2d"}) {
    EXPECT_LT(CpuSeconds(*tokenizer, unit, size_t{1} << 20, 1),
              500 * CpuSeconds(*tokenizer, unit, size_t{16} << 10, 3) + 0.01)
        << unit;
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
