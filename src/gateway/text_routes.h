// TEI's /tokenize and /decode: answered by the tokenizer alone.
#pragma once

#include "gateway/dialect.h"
#include "gateway/routes.h"

namespace pergola::gateway {

// Tokenises at once (at most RoutesOptions::max_tokenize_tokens in all), asking `given_up` before
// each text; `parts` renders.
MaybeFailure Tokenize(const RoutesOptions& options, const JsonValue& body, const GivenUp& given_up,
                      AnswerParts* parts);

MaybeFailure Decode(const RoutesOptions& options, const JsonValue& body, std::string* answer);

}  // namespace pergola::gateway
