#include "text/text_model.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pergola::text {
namespace {

char ToLowerAscii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return ToLowerAscii(x) == ToLowerAscii(y); });
}

// A client's text shortened for an error message, cut between code points.
std::string Shown(std::string_view text) {
  constexpr size_t kShown = 64;
  size_t size = std::min(text.size(), kShown);
  while (size > 0 && size < text.size() &&
         (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) {
    --size;
  }
  return "'" + std::string(text.substr(0, size)) + (size < text.size() ? "...'" : "'");
}

// The roles that dialects use for one prompt each.
std::string_view PromptOfRole(std::string_view role) {
  static constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
      {"search_query", "query"},       {"retrieval.query", "query"},      {"query", "query"},
      {"search_document", "document"}, {"retrieval.passage", "document"}, {"document", "document"}};
  for (const auto& [known, prompt] : kRoles) {
    if (EqualsIgnoringCase(role, known)) return prompt;
  }
  return role;
}

}  // namespace

TextModel::TextModel(TextModelConfig config) : config_(std::move(config)) {}

Result<std::string> TextModel::ResolvePrompt(const PrepareOptions& options) const {
  if (options.prompt_name) {
    const auto found = config_.prompts.find(*options.prompt_name);
    if (found != config_.prompts.end()) return options.prompt.value_or(found->second);
    std::string known;
    for (const auto& [name, prompt] : config_.prompts) known += (known.empty() ? "" : ", ") + name;
    return InvalidArgumentError("unknown prompt " + Shown(*options.prompt_name) +
                                "; the model has " + (known.empty() ? "none" : known));
  }
  if (options.prompt) return *options.prompt;
  if (options.role) {
    const std::string_view wanted = PromptOfRole(*options.role);
    for (const auto& [name, prompt] : config_.prompts) {
      if (EqualsIgnoringCase(name, wanted)) return prompt;
    }
    return std::string();
  }
  const auto found = config_.prompts.find(config_.default_prompt_name);
  return found == config_.prompts.end() ? std::string() : found->second;
}

int64_t TextModel::Limit(const PrepareOptions& options) const {
  const int64_t own =
      config_.max_tokens > 0 ? config_.max_tokens : std::numeric_limits<int64_t>::max();
  return std::min(own, options.max_tokens.value_or(own));
}

Status TextModel::CheckIds(const std::vector<int32_t>& ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < config_.vocab_size) continue;
    std::string name;
    if (ids[i] >= 0) name = config_.tokenizer->IdToToken(ids[i]);
    return InvalidArgumentError("token id " + std::to_string(ids[i]) +
                                (name.empty() ? "" : " (" + Shown(name) + ")") + " at position " +
                                std::to_string(i) + " is outside the model's vocabulary of " +
                                std::to_string(config_.vocab_size));
  }
  return OkStatus();
}

Result<PreparedText> TextModel::Prepare(std::string_view text,
                                        const PrepareOptions& options) const {
  const int64_t limit = Limit(options);
  if (limit < 1) {
    return InvalidArgumentError("the token limit is " + std::to_string(limit) +
                                "; it must be at least 1");
  }
  PERGOLA_ASSIGN_OR_RETURN(std::string prompted, ResolvePrompt(options));
  if (!prompted.empty()) {
    prompted += text;
    text = prompted;
  }
  tokenizers::EncodeOptions encode;
  encode.add_special_tokens = options.add_special_tokens;
  encode.max_tokens = static_cast<size_t>(limit);
  encode.side = options.truncate ? options.side : tokenizers::TruncationSide::kRight;
  tokenizers::Encoding encoding;
  PERGOLA_RETURN_IF_ERROR(config_.tokenizer->Encode(text, encode, &encoding));
  if (encoding.truncated && !options.truncate) {
    return InvalidArgumentError(std::string("input has ") +
                                (encoding.total_is_exact ? "" : "at least ") +
                                std::to_string(encoding.total_tokens) + " tokens, the limit is " +
                                std::to_string(limit) + "; set truncate to cut it");
  }
  PERGOLA_RETURN_IF_ERROR(CheckIds(encoding.ids));
  return PreparedText{{.ids = std::move(encoding.ids)}, encoding.truncated};
}

Result<PreparedText> TextModel::PrepareIds(std::vector<int32_t> ids,
                                           const PrepareOptions& options) const {
  const int64_t limit = Limit(options);
  if (limit < 1) {
    return InvalidArgumentError("the token limit is " + std::to_string(limit) +
                                "; it must be at least 1");
  }
  if (ids.empty()) return InvalidArgumentError("a list of token ids is empty");
  PERGOLA_RETURN_IF_ERROR(CheckIds(ids));
  const auto count = static_cast<int64_t>(ids.size());
  PreparedText prepared{{.ids = std::move(ids)}, false};
  if (count <= limit) return prepared;
  if (!options.truncate) {
    return InvalidArgumentError("input has " + std::to_string(count) + " tokens, the limit is " +
                                std::to_string(limit) + "; set truncate to cut it");
  }
  prepared.truncated = true;
  if (options.side == tokenizers::TruncationSide::kLeft) {
    std::vector<int32_t>& cut = prepared.sequence.ids;
    cut.erase(cut.begin(), cut.end() - limit);
  } else {
    prepared.sequence.ids.resize(static_cast<size_t>(limit));
  }
  return prepared;
}

}  // namespace pergola::text
