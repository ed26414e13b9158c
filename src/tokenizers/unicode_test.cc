#include "tokenizers/unicode.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cinttypes>
#include <cstdio>
#include <string>

#include "tokenizers/normalizer.h"
#include "tokenizers/pretokenizer.h"

namespace pergola::tokenizers {
namespace {

TEST(UnicodeTest, FindsTheFirstByteThatIsNotUtf8) {
  EXPECT_EQ(FindInvalidUtf8(""), kValidUtf8);
  EXPECT_EQ(FindInvalidUtf8("a\u00e9\u20ac\U0001F600\U0010FFFF"), kValidUtf8);
  const std::string long_ascii(100, 'x');
  EXPECT_EQ(FindInvalidUtf8(long_ascii + "\u00e9" + long_ascii), kValidUtf8);
  EXPECT_EQ(FindInvalidUtf8(long_ascii + "\xff" + long_ascii), 100u);
  for (const std::string_view bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82", "\xf0\x9f\x98", "\xc3"}) {
    EXPECT_EQ(FindInvalidUtf8("ab" + std::string(bad)), 2u);
  }
}

TEST(UnicodeTest, DecodesWhatItEncodes) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    AppendUtf8(c, &bytes);
    ASSERT_EQ(FindInvalidUtf8(bytes), kValidUtf8) << static_cast<uint32_t>(c);
    size_t pos = 0;
    ASSERT_EQ(DecodeUtf8(bytes, &pos), c);
    ASSERT_EQ(pos, bytes.size());
    ASSERT_EQ(Utf8Length(bytes[0]), bytes.size());
    ASSERT_EQ(PreviousUtf8(bytes, bytes.size()), 0u);
  }
}

TEST(UnicodeTest, ComposesHangulThatItDecomposed) {
  for (char32_t syllable = 0xAC00; syllable < 0xD7A4; ++syllable) {
    uint32_t scratch[3];
    const auto parts = Decompose(syllable, DecompositionKind::kCanonical, scratch);
    ASSERT_GE(parts.size(), 2u);
    char32_t composed = Compose(parts[0], parts[1]);
    if (parts.size() == 3) composed = Compose(composed, parts[2]);
    ASSERT_EQ(composed, syllable);
  }
  EXPECT_EQ(Compose(0xAC01, 0x11A8), 0u);  // has its trailing consonant
  EXPECT_EQ(Compose(0xAC00, 0x11A7), 0u);
}

// FNV-1a over the results for all code points, as scripts/make_tokenizer_goldens.py has it.
class Fnv {
 public:
  void Add(std::string_view bytes) {
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
  }
  std::string Hex() const {
    char text[17];
    std::snprintf(text, sizeof(text), "%016" PRIx64, hash_);
    return text;
  }

 private:
  uint64_t hash_ = 0xCBF29CE484222325;
};

std::string Golden(const char* form) {
  simdjson::dom::parser parser;
  const simdjson::dom::element goldens =
      parser.load(std::string(PERGOLA_TEST_DATA) + "/golden/tokenizers/unicode.json");
  return std::string(std::string_view(goldens[form]));
}

template <typename Add>
void ForEachCodePoint(const Add& add) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if ((c >= 0xD800 && c < 0xE000) || c == '\n') continue;
    std::string text;
    AppendUtf8(c, &text);
    add(text);
  }
}

std::string HashOf(const Normalizer& normalizer) {
  Fnv fnv;
  NormalizedText text;
  ForEachCodePoint([&](const std::string& c) {
    text.Assign(c, 0, false);
    normalizer.Apply(&text);
    fnv.Add(text.text());
    fnv.Add("\n");
  });
  return fnv.Hex();
}

TEST(UnicodeTest, NormalisesEveryCodePointAsTheReferenceDoes) {
  EXPECT_EQ(HashOf(*MakeUnicodeNormalizer(UnicodeForm::kNfc)), Golden("NFC"));
  EXPECT_EQ(HashOf(*MakeUnicodeNormalizer(UnicodeForm::kNfd)), Golden("NFD"));
  EXPECT_EQ(HashOf(*MakeUnicodeNormalizer(UnicodeForm::kNfkc)), Golden("NFKC"));
  EXPECT_EQ(HashOf(*MakeUnicodeNormalizer(UnicodeForm::kNfkd)), Golden("NFKD"));
  EXPECT_EQ(HashOf(*MakeLowercase()), Golden("Lowercase"));
  EXPECT_EQ(HashOf(*MakeStripAccents()), Golden("StripAccents"));
  EXPECT_EQ(HashOf(*MakeBertNormalizer({})), Golden("BertNormalizer"));
  EXPECT_EQ(HashOf(*MakeStrip(true, true)), Golden("Strip"));
}

// Over the numbers of pieces of "a?a ?1" for every code point.
std::string PieceHashOf(const Pretokenizer& pretokenizer) {
  Fnv fnv;
  NormalizedText text;
  PieceList pieces;
  ForEachCodePoint([&](const std::string& c) {
    text.Assign("a" + c + "a " + c + "1", 0, false);
    pieces.spans.assign(1, {0, text.text().size()});
    pretokenizer.Split(&text, &pieces);
    fnv.Add(std::to_string(pieces.spans.size()));
  });
  return fnv.Hex();
}

TEST(UnicodeTest, SplitsAtEveryCodePointAsTheReferenceDoes) {
  EXPECT_EQ(PieceHashOf(*MakeBertPretokenizer()), Golden("BertPreTokenizer"));
  EXPECT_EQ(PieceHashOf(*MakeWhitespace()), Golden("Whitespace"));
  EXPECT_EQ(PieceHashOf(*MakeWhitespaceSplit()), Golden("WhitespaceSplit"));
  EXPECT_EQ(PieceHashOf(*MakeDigits(false)), Golden("Digits"));
  EXPECT_EQ(PieceHashOf(*MakePunctuation(SplitBehaviour::kContiguous)), Golden("Punctuation"));
  EXPECT_EQ(PieceHashOf(*MakeByteLevel(false, true)), Golden("ByteLevel"));
}

TEST(UnicodeTest, MatchesEveryCodePointAsTheRegularExpressionsOfTheReferenceDo) {
  simdjson::dom::parser parser;
  const simdjson::dom::element goldens =
      parser.load(std::string(PERGOLA_TEST_DATA) + "/golden/tokenizers/unicode.json");
  int count = 0;
  for (const auto [regex, hash] : simdjson::dom::object(goldens["Split"])) {
    auto pattern = MakeRegexPattern(regex, "here");
    ASSERT_TRUE(pattern.ok()) << pattern.status().ToString();
    const auto split =
        MakeSplit(std::move(*pattern), SplitBehaviour::kIsolated, false, PretokenizerCuts::kNone);
    EXPECT_EQ(PieceHashOf(*split), std::string_view(hash)) << regex;
    ++count;
  }
  EXPECT_EQ(count, 17);
}

}  // namespace
}  // namespace pergola::tokenizers
