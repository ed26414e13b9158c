#include "tokenizers/double_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace pergola::tokenizers {
namespace {

// Values of all prefixes of `text`, by length.
std::map<size_t, int32_t> Prefixes(const DoubleArray& trie, std::string_view text) {
  std::map<size_t, int32_t> found;
  DoubleArray::Node node = trie.root();
  for (size_t i = 0; i < text.size() && trie.Step(text[i], &node); ++i) {
    if (trie.Value(node) != DoubleArray::kNoValue) found[i + 1] = trie.Value(node);
  }
  return found;
}

TEST(DoubleArrayTest, FindsEveryPrefixAndNothingElse) {
  std::mt19937 random(5);
  std::map<std::string, int32_t> strings;
  while (strings.size() < 20000) {
    std::string bytes;
    for (size_t length = 1 + random() % 9; bytes.size() < length;) {
      // Few letters, so that much is shared; now and then any byte at all.
      bytes += static_cast<char>(random() % 16 == 0 ? random() % 256 : 'a' + random() % 6);
    }
    strings.emplace(bytes, static_cast<int32_t>(strings.size()));
  }
  std::vector<DoubleArray::Entry> entries;
  for (const auto& [bytes, value] : strings) entries.push_back({bytes, value});
  std::shuffle(entries.begin(), entries.end(), random);
  const auto trie = DoubleArray::Build(entries);
  ASSERT_TRUE(trie.ok());
  for (const auto& [bytes, value] : strings) {
    const std::string text = bytes + static_cast<char>('a' + random() % 8) + "ab";
    std::map<size_t, int32_t> expected;
    for (size_t length = 1; length <= text.size(); ++length) {
      const auto found = strings.find(text.substr(0, length));
      if (found != strings.end()) expected[length] = found->second;
    }
    ASSERT_EQ(Prefixes(*trie, text), expected);
  }
  EXPECT_LT(trie->size_bytes(), size_t{4} << 20);  // no holes to speak of
}

TEST(DoubleArrayTest, RefusesWhatIsThereTwice) {
  const auto trie = DoubleArray::Build({{"ab", 0}, {"a", 1}, {"ab", 2}});
  EXPECT_EQ(trie.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(trie.status().message(), "token 'ab' is listed twice");
}

TEST(DoubleArrayTest, MayBeEmpty) {
  const auto trie = DoubleArray::Build({});
  ASSERT_TRUE(trie.ok());
  EXPECT_TRUE(Prefixes(*trie, "abc").empty());
  EXPECT_TRUE(Prefixes(DoubleArray(), "abc").empty());
}

}  // namespace
}  // namespace pergola::tokenizers
