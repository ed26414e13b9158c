#include "text/text_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/ascii.h"

namespace pergola::text {
namespace {

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

// The body with its fields filled; what is filled in is not looked at again.
std::string FillTemplate(const PairTemplate& form, std::string_view query,
                         std::string_view document) {
  const std::pair<std::string_view, std::string_view> fields[] = {
      {"{instruction}", form.instruction}, {"{query}", query}, {"{document}", document}};
  std::string filled;
  for (size_t at = 0; at < form.body.size();) {
    const std::string_view rest = std::string_view(form.body).substr(at);
    const auto* field =
        std::find_if(std::begin(fields), std::end(fields),
                     [rest](const auto& known) { return rest.starts_with(known.first); });
    if (field == std::end(fields)) {
      filled.push_back(form.body[at++]);
    } else {
      filled.append(field->second);
      at += field->first.size();
    }
  }
  return filled;
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

Result<tokenizers::EncodeOptions> TextModel::EncodeWithin(const PrepareOptions& options) const {
  const int64_t limit = Limit(options);
  if (limit < 1) {
    return InvalidArgumentError("the token limit is " + std::to_string(limit) +
                                "; it must be at least 1");
  }
  tokenizers::EncodeOptions encode;
  encode.add_special_tokens = options.add_special_tokens;
  encode.max_tokens = static_cast<size_t>(limit);
  encode.side = options.truncate ? options.side : tokenizers::TruncationSide::kRight;
  return encode;
}

Result<PreparedText> TextModel::Finish(tokenizers::Encoding encoding,
                                       const PrepareOptions& options) const {
  if (encoding.truncated && !options.truncate) {
    return InvalidArgumentError(std::string("input has ") +
                                (encoding.total_is_exact ? "" : "at least ") +
                                std::to_string(encoding.total_tokens) + " tokens, the limit is " +
                                std::to_string(Limit(options)) + "; set truncate to cut it");
  }
  PERGOLA_RETURN_IF_ERROR(CheckIds(encoding.ids));
  PreparedText prepared{{.ids = std::move(encoding.ids)}, encoding.truncated};
  const auto second = std::find(encoding.type_ids.begin(), encoding.type_ids.end(), 1);
  if (second != encoding.type_ids.end()) {
    prepared.sequence.second_text = static_cast<int32_t>(second - encoding.type_ids.begin());
  }
  return prepared;
}

Status TextModel::EncodePrompted(std::string_view text, const PrepareOptions& options,
                                 const tokenizers::EncodeOptions& encode,
                                 tokenizers::Encoding* encoding) const {
  PERGOLA_ASSIGN_OR_RETURN(std::string prompted, ResolvePrompt(options));
  if (prompted.empty()) return config_.tokenizer->Encode(text, encode, encoding);
  prompted += text;
  return config_.tokenizer->Encode(prompted, encode, encoding);
}

Result<PreparedText> TextModel::Prepare(std::string_view text,
                                        const PrepareOptions& options) const {
  PERGOLA_ASSIGN_OR_RETURN(const tokenizers::EncodeOptions encode, EncodeWithin(options));
  tokenizers::Encoding encoding;
  PERGOLA_RETURN_IF_ERROR(EncodePrompted(text, options, encode, &encoding));
  return Finish(std::move(encoding), options);
}

Result<PreparedParts> TextModel::PrepareParts(std::string_view text,
                                              const PrepareOptions& options) const {
  PERGOLA_ASSIGN_OR_RETURN(tokenizers::EncodeOptions encode, EncodeWithin(options));
  const auto limit = static_cast<int64_t>(encode.max_tokens);
  encode.max_tokens = std::numeric_limits<size_t>::max();
  encode.with_offsets = true;  // for special_mask
  tokenizers::Encoding encoding;
  PERGOLA_RETURN_IF_ERROR(EncodePrompted(text, options, encode, &encoding));
  const std::vector<int32_t>& ids = encoding.ids;
  PERGOLA_RETURN_IF_ERROR(CheckIds(ids));
  const std::vector<uint8_t>& special = encoding.special_mask;
  const auto head = std::find(special.begin(), special.end(), 0) - special.begin();
  const auto size = static_cast<int64_t>(ids.size());
  PreparedParts parts;
  if (size <= limit || head == size) {  // the second: special tokens alone
    parts.sequences.push_back({.ids = ids});
    parts.tokens.push_back(std::max<int64_t>(size - head, 1));
    if (size <= limit) return parts;
    return InvalidArgumentError("the token limit is " + std::to_string(limit) +
                                "; the special tokens alone are " + std::to_string(size));
  }
  const auto tail = std::find(special.rbegin(), special.rend(), 0) - special.rbegin();
  const int64_t room = limit - head - tail;
  if (room < 1) {
    return InvalidArgumentError("the token limit is " + std::to_string(limit) +
                                "; special tokens leave no room for text");
  }
  for (int64_t begin = head; begin < size - tail; begin += room) {
    const int64_t end = std::min(begin + room, size - tail);
    Sequence& part = parts.sequences.emplace_back();
    part.ids.assign(ids.begin(), ids.begin() + head);
    part.ids.insert(part.ids.end(), ids.begin() + begin, ids.begin() + end);
    part.ids.insert(part.ids.end(), ids.end() - tail, ids.end());
    parts.tokens.push_back(end - begin);
  }
  return parts;
}

Result<PreparedText> TextModel::PreparePair(std::string_view first, std::string_view second,
                                            const PrepareOptions& options,
                                            std::optional<int64_t> max_second_tokens) const {
  PERGOLA_ASSIGN_OR_RETURN(const tokenizers::EncodeOptions encode, EncodeWithin(options));
  tokenizers::Encoding encoding;
  bool second_cut = false;
  if (max_second_tokens) {
    tokenizers::EncodeOptions alone{.add_special_tokens = false, .with_offsets = true};
    alone.max_tokens = static_cast<size_t>(std::max<int64_t>(*max_second_tokens, 1));
    PERGOLA_RETURN_IF_ERROR(config_.tokenizer->Encode(second, alone, &encoding));
    second_cut = encoding.truncated;
    if (second_cut) second = second.substr(0, encoding.offsets.back().end);
  }
  PreparedText prepared;
  if (config_.pair_template) {
    PERGOLA_ASSIGN_OR_RETURN(prepared,
                             PrepareTemplate(*config_.pair_template, first, second, options));
  } else {
    PERGOLA_RETURN_IF_ERROR(config_.tokenizer->EncodePair(first, second, encode, &encoding));
    PERGOLA_ASSIGN_OR_RETURN(prepared, Finish(std::move(encoding), options));
  }
  prepared.truncated = prepared.truncated || second_cut;
  return prepared;
}

Result<PreparedText> TextModel::PrepareTemplate(const PairTemplate& form, std::string_view query,
                                                std::string_view document,
                                                const PrepareOptions& options) const {
  tokenizers::Encoding prefix;
  tokenizers::Encoding suffix;
  tokenizers::EncodeOptions whole{.add_special_tokens = false};
  PERGOLA_RETURN_IF_ERROR(config_.tokenizer->Encode(form.prefix, whole, &prefix));
  PERGOLA_RETURN_IF_ERROR(config_.tokenizer->Encode(form.suffix, whole, &suffix));
  const auto fixed = static_cast<int64_t>(prefix.ids.size() + suffix.ids.size());
  PrepareOptions body = options;
  body.add_special_tokens = false;
  body.max_tokens = Limit(options) - fixed;
  Result<tokenizers::EncodeOptions> encode = EncodeWithin(body);
  if (!encode.ok()) {
    return InvalidArgumentError("the token limit is " + std::to_string(Limit(options)) +
                                "; the model's instructions alone have " + std::to_string(fixed));
  }
  tokenizers::Encoding encoding;
  PERGOLA_RETURN_IF_ERROR(
      config_.tokenizer->Encode(FillTemplate(form, query, document), *encode, &encoding));
  PERGOLA_ASSIGN_OR_RETURN(PreparedText prepared, Finish(std::move(encoding), body));
  std::vector<int32_t>& ids = prepared.sequence.ids;
  ids.insert(ids.begin(), prefix.ids.begin(), prefix.ids.end());
  ids.insert(ids.end(), suffix.ids.begin(), suffix.ids.end());
  PERGOLA_RETURN_IF_ERROR(CheckIds(ids));
  return prepared;
}

Result<PreparedText> TextModel::PrepareDocument(std::span<const std::string> chunks,
                                                int32_t separator,
                                                const PrepareOptions& options) const {
  PERGOLA_ASSIGN_OR_RETURN(tokenizers::EncodeOptions encode, EncodeWithin(options));
  const size_t limit = encode.max_tokens;
  if (chunks.empty()) return InvalidArgumentError("a document has no chunks");
  // What stands around the first chunk stands around the whole document.
  encode.with_offsets = true;
  tokenizers::Encoding first;
  PERGOLA_RETURN_IF_ERROR(config_.tokenizer->Encode(chunks[0], encode, &first));
  const std::vector<uint8_t>& special = first.special_mask;
  const auto head = std::find(special.begin(), special.end(), 0) - special.begin();
  const auto tail = std::find(special.rbegin(), special.rend(), 0) - special.rbegin();

  encode = {.add_special_tokens = false, .max_tokens = limit};
  PreparedText prepared;
  std::vector<int32_t>& ids = prepared.sequence.ids;
  ids.assign(first.ids.begin(), first.ids.begin() + head);
  tokenizers::Encoding encoding;
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    PERGOLA_RETURN_IF_ERROR(config_.tokenizer->Encode(chunks[chunk], encode, &encoding));
    if (encoding.ids.empty()) {
      return InvalidArgumentError("chunk " + std::to_string(chunk) + " has no tokens");
    }
    if (chunk > 0 && separator >= 0) ids.push_back(separator);
    const auto begin = static_cast<int32_t>(ids.size());
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    prepared.sequence.spans.push_back({begin, static_cast<int32_t>(ids.size())});
    const size_t so_far = ids.size() + static_cast<size_t>(tail);
    if (encoding.truncated || so_far > limit) {
      return InvalidArgumentError("the document has at least " + std::to_string(so_far) +
                                  " tokens, the limit is " + std::to_string(limit) +
                                  "; documents in chunks are not cut");
    }
  }
  ids.insert(ids.end(), first.ids.end() - tail, first.ids.end());
  PERGOLA_RETURN_IF_ERROR(CheckIds(ids));
  return prepared;
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
