#include "tokenizers/fuzz_checks.h"

#include <algorithm>

#include "core/check.h"
#include "tokenizers/unicode.h"

namespace pergola::tokenizers {
namespace {

void CheckPlaces(const Tokenizer& tokenizer, std::string_view text, const Encoding& encoding) {
  const size_t size = encoding.ids.size();
  PERGOLA_CHECK(encoding.type_ids.size() == size);
  PERGOLA_CHECK(encoding.offsets.size() == size);
  PERGOLA_CHECK(encoding.special_mask.size() == size);
  for (size_t i = 0; i < size; ++i) {
    PERGOLA_CHECK(encoding.ids[i] >= 0);
    PERGOLA_CHECK(static_cast<size_t>(encoding.ids[i]) < tokenizer.vocab_size());
    const ByteSpan span = encoding.offsets[i];
    PERGOLA_CHECK(span.begin <= span.end && span.end <= text.size());
  }
}

}  // namespace

void CheckEncoding(const Tokenizer& tokenizer, std::string_view text) {
  Encoding whole;
  const Status status = tokenizer.Encode(text, {.with_offsets = true}, &whole);
  PERGOLA_CHECK(status.ok() == (FindInvalidUtf8(text) == kValidUtf8));
  if (!status.ok()) return;
  CheckPlaces(tokenizer, text, whole);
  for (const bool skip : {false, true}) {
    const auto decoded = tokenizer.Decode(whole.ids, skip);
    PERGOLA_CHECK(decoded.ok() && FindInvalidUtf8(*decoded) == kValidUtf8);
  }
  Encoding bare;
  PERGOLA_CHECK(tokenizer.Encode(text, {.add_special_tokens = false}, &bare).ok());
  for (const size_t limit : {size_t{1}, size_t{5}, size_t{40}}) {
    for (const TruncationSide side : {TruncationSide::kRight, TruncationSide::kLeft}) {
      Encoding cut;
      const EncodeOptions options{
          .add_special_tokens = false, .with_offsets = true, .max_tokens = limit, .side = side};
      PERGOLA_CHECK(tokenizer.Encode(text, options, &cut).ok());
      CheckPlaces(tokenizer, text, cut);
      PERGOLA_CHECK(cut.ids.size() == std::min(limit, bare.ids.size()));
      PERGOLA_CHECK(cut.truncated == (bare.ids.size() > limit));
      const auto begin = side == TruncationSide::kRight
                             ? bare.ids.begin()
                             : bare.ids.end() - static_cast<ptrdiff_t>(cut.ids.size());
      PERGOLA_CHECK(std::equal(cut.ids.begin(), cut.ids.end(), begin));
      PERGOLA_CHECK(tokenizer.EncodePair(text, "b", options, &cut).ok());
      CheckPlaces(tokenizer, text.size() > 1 ? text : "b", cut);
    }
  }
}

void CheckTokenizerJson(std::string_view json) {
  const auto tokenizer = ParseTokenizerJson(json);
  if (!tokenizer.ok()) {
    PERGOLA_CHECK(FindInvalidUtf8(tokenizer.status().message()) == kValidUtf8);
    return;
  }
  CheckEncoding(**tokenizer, "hello w\u00f6rld \u4e2d\u6587 <mask>\n\n ab aab\u2581 q\x01");
  CheckEncoding(**tokenizer, json.substr(0, 200));
}

}  // namespace pergola::tokenizers
