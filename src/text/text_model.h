// What turns a client's text into token ids for one model: prompt, truncation, tokenising,
// counting. The gateway and the in-process server share it; nothing below sees text.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto prepared, text_model.Prepare("hello", {.prompt_name = "query"}));
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/sequence.h"
#include "pergola/status.h"
#include "tokenizers/tokenizer.h"

namespace pergola::text {

// How a language model that judges pairs is asked: the tokens of prefix and suffix are never cut,
// those of the body between them may be.
struct PairTemplate {
  std::string prefix;
  std::string body;  // with {instruction}, {query} and {document}, each once
  std::string suffix;
  std::string instruction;
};

struct TextModelConfig {
  // The second owner is the engine's caller.
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer = nullptr;
  int64_t max_tokens = 0;  // per sequence, special tokens included; 0: no limit
  int64_t vocab_size = 0;  // rows of the embedding table: ids must be below
  // Name -> text put before the input.
  std::map<std::string, std::string, std::less<>> prompts = {};
  std::string default_prompt_name = {};            // empty: no prompt unless asked
  std::optional<PairTemplate> pair_template = {};  // none: the tokenizer joins pairs
};

struct PrepareOptions {
  // A name from the model's table; unknown is INVALID_ARGUMENT.
  std::optional<std::string> prompt_name = std::nullopt;
  std::optional<std::string> prompt = std::nullopt;  // free text; wins over a known prompt_name
  // A role of a dialect ("search_query", "retrieval.passage", "document", ...), mapped onto a
  // prompt name by rule 10 of docs/http.md; without a match no prompt.
  std::optional<std::string> role = std::nullopt;
  bool truncate = false;
  tokenizers::TruncationSide side = tokenizers::TruncationSide::kRight;
  // Lower limit than the model's (Ollama num_ctx, max_tokens_per_doc); nullopt = the model's.
  std::optional<int64_t> max_tokens = std::nullopt;
  bool add_special_tokens = true;
};

struct PreparedText {
  Sequence sequence;
  bool truncated = false;
};

// A text in as many sequences as it needs.
struct PreparedParts {
  std::vector<Sequence> sequences;
  std::vector<int64_t> tokens;  // of each, special tokens left out: its weight in a mean
};

// Immutable and thread-safe.
class TextModel {
 public:
  explicit TextModel(TextModelConfig config);

  const tokenizers::Tokenizer& tokenizer() const { return *config_.tokenizer; }
  const TextModelConfig& config() const { return config_; }

  // INVALID_ARGUMENT: too long without `truncate` ("input has at least 300 tokens, the limit is
  // 256"), unknown prompt, a token outside the embedding table, invalid UTF-8.
  Result<PreparedText> Prepare(std::string_view text, const PrepareOptions& options) const;

  // As Prepare(), but a text that is too long is neither cut nor refused: its tokens, the prompt's
  // before them, are dealt out in order to sequences that are full but for the last, each within
  // the special tokens of a text of its own. Costs what tokenising the whole text costs.
  Result<PreparedParts> PrepareParts(std::string_view text, const PrepareOptions& options) const;

  // Two texts to be read together by a cross-encoder. Too long: refused or, with `truncate`, cut
  // from the longer one first (with a template: from the right). `max_second_tokens`: the second
  // text is cut to so many tokens before.
  Result<PreparedText> PreparePair(std::string_view first, std::string_view second,
                                   const PrepareOptions& options,
                                   std::optional<int64_t> max_second_tokens = std::nullopt) const;

  // A document in chunks: their tokens end to end within the special tokens of one text, a span per
  // chunk. `separator`: a token between two chunks; -1 = none. Never cut: INVALID_ARGUMENT when too
  // long, or naming a chunk that has no tokens.
  Result<PreparedText> PrepareDocument(std::span<const std::string> chunks, int32_t separator,
                                       const PrepareOptions& options) const;

  // Ids used exactly as sent, checked against the vocabulary; too long is refused or, with
  // `truncate`, cut plainly on `side`. An empty list is INVALID_ARGUMENT.
  Result<PreparedText> PrepareIds(std::vector<int32_t> ids, const PrepareOptions& options) const;

  // The prompt's text that `options` select (empty: none).
  Result<std::string> ResolvePrompt(const PrepareOptions& options) const;

 private:
  // The smaller of the model's and the request's limit.
  int64_t Limit(const PrepareOptions& options) const;
  // `text` behind its prompt, tokenised; `encode` says how.
  Status EncodePrompted(std::string_view text, const PrepareOptions& options,
                        const tokenizers::EncodeOptions& encode,
                        tokenizers::Encoding* encoding) const;
  // INVALID_ARGUMENT when the limit leaves room for nothing.
  Result<tokenizers::EncodeOptions> EncodeWithin(const PrepareOptions& options) const;
  // A pair in words of the template.
  Result<PreparedText> PrepareTemplate(const PairTemplate& form, std::string_view query,
                                       std::string_view document,
                                       const PrepareOptions& options) const;
  // INVALID_ARGUMENT when the text was cut and that is not allowed.
  Result<PreparedText> Finish(tokenizers::Encoding encoding, const PrepareOptions& options) const;
  // INVALID_ARGUMENT names the first id outside the embedding table, its token and its position.
  Status CheckIds(const std::vector<int32_t>& ids) const;

  TextModelConfig config_;
};

}  // namespace pergola::text
