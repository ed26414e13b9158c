// The entries of tokenizer.json, one parser each. A part that is not supported is UNIMPLEMENTED
// naming its kind and place; a null entry is an absent part.
#pragma once

#include <memory>
#include <string>

#include "tokenizers/decoder.h"
#include "tokenizers/json_fields.h"
#include "tokenizers/normalizer.h"
#include "tokenizers/pipeline.h"
#include "tokenizers/post_processor.h"
#include "tokenizers/pretokenizer.h"
#include "tokenizers/token_model.h"

namespace pergola::tokenizers {

Result<std::unique_ptr<Normalizer>> ParseNormalizer(const JsonElement& element,
                                                    const std::string& place);
Result<std::unique_ptr<Pretokenizer>> ParsePretokenizer(const JsonElement& element,
                                                        const std::string& place);
Result<PostProcessor> ParsePostProcessor(const JsonElement& element, const std::string& place);
Result<std::unique_ptr<Decoder>> ParseDecoder(const JsonElement& element, const std::string& place);
// `byte_level`: the pre-tokeniser maps bytes.
Result<std::unique_ptr<TokenModel>> ParseTokenModel(const JsonElement& element,
                                                    const std::string& place, bool byte_level);
Result<AddedToken> ParseAddedToken(const JsonElement& element, const std::string& place);

// Of a Precompiled normalizer: the compiled character map's bytes.
Result<std::string> ParseCharsmap(const JsonElement& element, const std::string& place);

// Of Metaspace: `prepend_scheme`, or in older files `add_prefix_space`.
Result<PrependScheme> ParsePrependScheme(const JsonElement& element, const std::string& place);

// BertNormalizer's fields; strip_accents follows lowercase when null.
Result<BertNormalizerOptions> ParseBertOptions(const JsonElement& element,
                                               const std::string& place);

}  // namespace pergola::tokenizers
