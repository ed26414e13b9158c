// Texts of exactly so many tokens, each another: what a server is measured with.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto texts, BenchTexts::Make(text_model));
//   PERGOLA_ASSIGN_OR_RETURN(std::string text, texts.Text(/*index=*/7, /*length=*/128));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pergola/status.h"
#include "text/text_model.h"

namespace pergola::cli {

// Immutable and thread-safe.
class BenchTexts {
 public:
  // FAILED_PRECONDITION: the vocabulary has too few words that are single tokens.
  static Result<BenchTexts> Make(std::shared_ptr<const text::TextModel> model);

  // Tokens of the shortest text, special tokens and default prompt included: of fewer words too
  // many would be alike.
  int64_t shortest() const { return around_ + 4; }
  int64_t longest() const;

  // Of `length` tokens, shortest() to longest(); the same in every run. Costs what its words cost:
  // nothing is tokenised.
  std::string Text(uint64_t index, int64_t length) const;
  // The ids of that text.
  Result<std::vector<int32_t>> Ids(uint64_t index, int64_t length) const;
  // INTERNAL when a text of that length has another number of tokens after all.
  Status Check(int64_t length) const;

 private:
  explicit BenchTexts(std::shared_ptr<const text::TextModel> model) : model_(std::move(model)) {}
  Result<int64_t> CountTokens(const std::string& text) const;
  Result<bool> IsOneToken(const std::string& word) const;

  std::shared_ptr<const text::TextModel> model_;  // second owner: the caller
  std::vector<std::string> words_;                // a token each
  int64_t around_ = 0;                            // tokens beside those of words
};

}  // namespace pergola::cli
