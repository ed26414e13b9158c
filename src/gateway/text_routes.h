// TEI's /tokenize and /decode: answered by the tokenizer alone.
#pragma once

#include "gateway/dialect.h"
#include "gateway/routes.h"

namespace pergola::gateway {

// Tokenises at once (at most RoutesOptions::max_tokenize_tokens in all); `parts` renders.
MaybeFailure Tokenize(const RoutesOptions& options, const JsonValue& body, AnswerParts* parts);

MaybeFailure Decode(const RoutesOptions& options, const JsonValue& body, std::string* answer);

}  // namespace pergola::gateway
