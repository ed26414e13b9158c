#include "cli/bench_texts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cli/bench_engine.h"

namespace pergola::cli {
namespace {

// A token that is a lower-case word, without the mark of the blank before it; else empty.
std::string LettersOf(std::string_view token) {
  for (const std::string_view mark : {"\u2581", "\u0120"}) {  // of Unigram; of bytes as letters
    if (token.starts_with(mark)) token.remove_prefix(mark.size());
  }
  const bool right = token.size() >= 2 && std::all_of(token.begin(), token.end(),
                                                      [](char c) { return c >= 'a' && c <= 'z'; });
  return right ? std::string(token) : std::string();
}

}  // namespace

Result<int64_t> BenchTexts::CountTokens(const std::string& text) const {
  PERGOLA_ASSIGN_OR_RETURN(const text::PreparedText prepared, model_->Prepare(text, {}));
  return prepared.sequence.tokens();
}

Result<bool> BenchTexts::IsOneToken(const std::string& word) const {
  PERGOLA_ASSIGN_OR_RETURN(const int64_t alone, CountTokens(word));
  if (alone != around_ + 1) return false;
  // The first word has no blank before it: both forms must be one token.
  PERGOLA_ASSIGN_OR_RETURN(const int64_t twice, CountTokens(word + " " + word));
  return twice == alone + 1;
}

Result<BenchTexts> BenchTexts::Make(std::shared_ptr<const text::TextModel> model) {
  BenchTexts texts(std::move(model));
  PERGOLA_ASSIGN_OR_RETURN(const int64_t letter, texts.CountTokens("a"));
  texts.around_ = letter - 1;
  // A small vocabulary lacks most of them, but has words of its own.
  const tokenizers::Tokenizer& tokenizer = texts.model_->tokenizer();
  const auto size = static_cast<tokenizers::TokenId>(tokenizer.vocab_size());
  for (size_t next = 0; texts.words_.size() < kBenchWords.size(); ++next) {
    std::string word;
    if (next < kBenchWords.size()) {
      word = kBenchWords[next];
    } else {
      const size_t id = next - kBenchWords.size();
      if (id >= static_cast<size_t>(size)) break;
      word = LettersOf(tokenizer.IdToToken(static_cast<tokenizers::TokenId>(id)));
      if (word.empty() || std::count(texts.words_.begin(), texts.words_.end(), word) > 0) continue;
    }
    PERGOLA_ASSIGN_OR_RETURN(const bool is_one, texts.IsOneToken(word));
    if (is_one) texts.words_.push_back(std::move(word));
  }
  constexpr size_t kLeast = 8;
  if (texts.words_.size() < kLeast) {
    return FailedPreconditionError("the vocabulary has no words that are single tokens");
  }
  return texts;
}

int64_t BenchTexts::longest() const { return model_->config().max_tokens; }

std::string BenchTexts::Text(uint64_t index, int64_t length) const {
  // splitmix64: texts of neighbouring indices have nothing in common.
  uint64_t state = index * 0xD1342543DE82EF95u + static_cast<uint64_t>(length);
  std::string text;
  for (int64_t word = around_; word < length; ++word) {
    state += 0x9E3779B97F4A7C15u;
    uint64_t mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    if (!text.empty()) text.push_back(' ');
    text.append(words_[(mixed >> 32) % words_.size()]);
  }
  return text;
}

Result<std::vector<int32_t>> BenchTexts::Ids(uint64_t index, int64_t length) const {
  PERGOLA_ASSIGN_OR_RETURN(text::PreparedText prepared, model_->Prepare(Text(index, length), {}));
  return std::move(prepared.sequence.ids);
}

Status BenchTexts::Check(int64_t length) const {
  PERGOLA_ASSIGN_OR_RETURN(const int64_t tokens, CountTokens(Text(0, length)));
  if (tokens == length) return OkStatus();
  return InternalError("a text for " + std::to_string(length) + " tokens has " +
                       std::to_string(tokens));
}

}  // namespace pergola::cli
