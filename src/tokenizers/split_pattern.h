// The regular expressions by which pre-tokenisers cut text, each matched by hand.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto pattern, MakeRegexPattern(R"(\s+)", "pre_tokenizer.pattern"));
//   TextSpan match;
//   while (pattern->FindNext(text, from, &match)) from = match.end;
//
// tokenizer.json files draw on a dozen expressions, copied from model to model, so an expression is
// recognised by its exact text. What this buys over a regular-expression engine: one pass without
// backtracking whatever the text, and classes of code points that are those of the reference
// library. What it costs: an expression that is not in the list is refused by name
// (docs/adding_a_tokenizer.md says how to add one).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pergola/status.h"
#include "tokenizers/pieces.h"

namespace pergola::tokenizers {

// Immutable and thread-safe.
class SplitPattern {
 public:
  virtual ~SplitPattern() = default;

  // The first match in `text` that starts at or after `from`, never empty; false: there is none.
  // `from` is the start of the text or the end of a match.
  virtual bool FindNext(std::string_view text, size_t from, TextSpan* match) const = 0;

  // Every code point belongs to a match, and a match ends between a letter or number and what is
  // none of letter, number, mark and apostrophe, whatever else stands around.
  virtual bool tiles() const { return false; }
  // For patterns that tile: appends the matches of text[begin, end), which is a text of its own.
  virtual void Tile(std::string_view text, TextSpan piece, std::vector<TextSpan>* matches) const;
};

// Expressions that more than tokenizer.json files name.
inline constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen35Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kO200kRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// UNIMPLEMENTED quoting the expression when it is not known.
Result<std::unique_ptr<SplitPattern>> MakeRegexPattern(std::string_view regex,
                                                       const std::string& place);
// `text` is not empty.
std::unique_ptr<SplitPattern> MakeStringPattern(std::string text);
// The pattern that the ByteLevel pre-tokeniser brings along.
std::unique_ptr<SplitPattern> MakeGpt2Pattern();

}  // namespace pergola::tokenizers
