// Replays what the fuzzers found worth keeping.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tokenizers/fuzz_checks.h"

namespace pergola::tokenizers {
namespace {

template <typename Check>
int Replay(const std::string& corpus, const Check& check) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(PERGOLA_TEST_DATA) +
                                                               "/fuzz/corpus/" + corpus)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    check(std::string(std::istreambuf_iterator<char>(file), {}));
    ++count;
  }
  return count;
}

TEST(TokenizersFuzzCorpusTest, JsonFilesKeepEveryPromise) {
  EXPECT_GT(Replay("tokenizer_json", [](const std::string& json) { CheckTokenizerJson(json); }),
            20);
}

TEST(TokenizersFuzzCorpusTest, TextsKeepEveryPromise) {
  for (const char* model : {"bert", "gemma3-embed", "mpnet", "qwen3-embed", "roberta",
                            "xlm-roberta", "xlm-roberta-reranker"}) {
    const auto tokenizer = LoadTokenizerJson(std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" +
                                             model + "/tokenizer.json");
    ASSERT_TRUE(tokenizer.ok());
    const auto check = [&](const std::string& text) { CheckEncoding(**tokenizer, text); };
    EXPECT_GT(Replay("tokenizer_encode", check), 20);
  }
}

}  // namespace
}  // namespace pergola::tokenizers
