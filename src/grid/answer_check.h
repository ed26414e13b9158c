// What a server answered, against what it was asked: before anybody builds on it.
//
//   PERGOLA_RETURN_IF_ERROR(CheckAnswer(request, answer, payload, {hidden_size, vocab_size}));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/token_choice.h"
#include "grid/frame.h"
#include "pergola/status.h"

namespace pergola::grid {

// Of the whole model.
struct ModelWidths {
  int64_t hidden_size = 0;  // D
  int64_t vocab_size = 0;   // V
};

// DATA_LOSS saying what is wrong: another kind, layer or model than the request's; other rows or
// widths than it asks for; a value that is not finite; tokens that are none of the vocabulary, or
// not best first. `answer` passed CheckPayload with `payload`.
Status CheckAnswer(const FrameHeader& request, const FrameHeader& answer,
                   std::span<const std::byte> payload, const ModelWidths& widths);

// The one row of a `top` answer. DATA_LOSS as above.
Result<engine::TopTokens> ParseTopAnswer(const FrameHeader& answer,
                                         std::span<const std::byte> payload, int64_t vocab_size);

}  // namespace pergola::grid
