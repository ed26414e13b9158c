// Counts how often texts are tokenised: on a server behind a gateway, which tokenises itself,
// never.
//
//   auto counted = text::CountTokenizerCalls(text);
//   ... counted.calls->load() ...
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "text/text_model.h"

namespace pergola::text {

struct CountedText {
  std::shared_ptr<const TextModel> text;  // as the one given, tokenising the same
  // Texts and pairs tokenised by it. Second owner: its tokenizer.
  std::shared_ptr<const std::atomic<uint64_t>> calls;
};

CountedText CountTokenizerCalls(const TextModel& text);

}  // namespace pergola::text
