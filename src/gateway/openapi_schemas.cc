// The shapes of bodies and answers, as /openapi.json gives them. What is described here is what the
// dialects read and write: routes_openapi_test.cc compares answers with it.
#include "gateway/openapi.h"

namespace pergola::gateway {
namespace {

constexpr char kSchemas[] = R"json({
"Object": {"type": "object"},
"Health": {"type": "object", "required": ["status"], "properties": {"status": {"const": "ok"}}},

"OpenAiError": {"type": "object", "required": ["error"], "properties": {
  "error": {"type": "object", "required": ["message", "type", "param", "code"], "properties": {
    "message": {"type": "string"}, "type": {"type": "string"},
    "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}},
  "detail": {"type": "string", "description": "For Voyage's fields only: the message again"}}},
"PlainError": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
"TeiError": {"type": "object", "required": ["error"], "properties": {
  "error": {"type": "string"}, "error_type": {"type": "string"}}},
"CohereError": {"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}},
"CohereV1Error": {"anyOf": [{"$ref": "#/components/schemas/OpenAiError"},
  {"type": "object", "required": ["error", "code"], "properties": {"error": {"type": "string"}, "code": {"type": "string"}}}]},

"Vector": {"type": "array", "items": {"type": "number"}, "minItems": 1},
"VectorOrText": {"description": "Numbers, or base64 of them", "oneOf": [{"$ref": "#/components/schemas/Vector"}, {"type": "string"}]},
"TokenIds": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
"Input": {"description": "A text, texts, token ids, or lists of token ids. Ids are used exactly as sent.", "anyOf": [
  {"type": "string"},
  {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"type": "string"}},
  {"$ref": "#/components/schemas/TokenIds"},
  {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"$ref": "#/components/schemas/TokenIds"}}]},
"Texts": {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"type": "string"}},
"Direction": {"enum": ["left", "right", "Left", "Right", null], "description": "The side that is cut; right by default"},
"Dimensions": {"type": ["integer", "null"], "minimum": 1, "description": "The first so many numbers, normalised again"},
"Usage": {"type": "object", "required": ["prompt_tokens", "total_tokens"], "properties": {
  "prompt_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"}}},

"EmbeddingsRequest": {"type": "object", "required": ["model", "input"], "properties": {
  "model": {"type": "string", "minLength": 1},
  "input": {"$ref": "#/components/schemas/Input"},
  "dimensions": {"$ref": "#/components/schemas/Dimensions"},
  "encoding_format": {"enum": ["float", "base64", "base64_int8", "base64_binary", null]},
  "user": {"description": "Ignored"},
  "truncate": {"type": ["boolean", "null"], "description": "Cut what is too long instead of refusing it; false by default"},
  "truncation_direction": {"$ref": "#/components/schemas/Direction"},
  "prompt_name": {"type": ["string", "null"], "description": "A prompt of the model; /info lists them"},
  "prompt": {"type": ["string", "null"], "description": "Put before every text"},
  "normalize": {"type": ["boolean", "null"]},
  "average_long": {"type": ["boolean", "null"], "description": "Embed what is too long in parts and average these"},
  "task": {"type": ["string", "null"], "description": "Jina: names a prompt"},
  "normalized": {"type": ["boolean", "null"], "description": "Jina: as normalize"},
  "embedding_type": {"enum": ["float", "base64", "binary", "ubinary", null], "description": "Jina; goes before encoding_format"},
  "late_chunking": {"type": ["boolean", "null"], "description": "Jina: by a model that can"},
  "input_type": {"type": ["string", "null"], "description": "Voyage: query or document"},
  "truncation": {"type": ["boolean", "null"], "description": "Voyage: as truncate, true by default"},
  "output_dimension": {"$ref": "#/components/schemas/Dimensions"},
  "output_dtype": {"enum": ["float", "int8", "uint8", "binary", "ubinary", null], "description": "Voyage"}}},
"EmbeddingsResponse": {"type": "object", "required": ["object", "data", "model", "usage"], "properties": {
  "object": {"const": "list"}, "model": {"type": "string"},
  "data": {"type": "array", "items": {"type": "object", "required": ["object", "index", "embedding"], "properties": {
    "object": {"const": "embedding"}, "index": {"type": "integer"},
    "embedding": {"$ref": "#/components/schemas/VectorOrText"}}}},
  "usage": {"$ref": "#/components/schemas/Usage"}}},

"Model": {"type": "object", "required": ["id", "object", "created", "owned_by"], "properties": {
  "id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"}, "owned_by": {"type": "string"}}},
"ModelList": {"type": "object", "required": ["object", "data"], "properties": {
  "object": {"const": "list"}, "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},

"OllamaOptions": {"type": ["object", "null"], "properties": {
  "num_ctx": {"type": ["integer", "null"], "minimum": 1, "description": "A limit below the model's, special tokens included"}}},
"KeepAlive": {"type": ["number", "string", "null"],
  "description": "How long the model stays loaded when no more requests come: seconds, or a duration like 5m; negative: for ever. Checked, but without effect behind a gateway, whose servers keep their models"},
"OllamaEmbedRequest": {"type": "object", "required": ["input"], "properties": {
  "model": {"type": ["string", "null"]},
  "input": {"$ref": "#/components/schemas/Input"},
  "truncate": {"type": ["boolean", "null"], "description": "true by default"},
  "dimensions": {"$ref": "#/components/schemas/Dimensions"},
  "encoding_format": {"enum": ["float", "base64", "base64_int8", "base64_binary", null]},
  "options": {"$ref": "#/components/schemas/OllamaOptions"},
  "keep_alive": {"$ref": "#/components/schemas/KeepAlive"}}},
"OllamaEmbedResponse": {"type": "object", "required": ["model", "embeddings", "total_duration", "load_duration", "prompt_eval_count"], "properties": {
  "model": {"type": "string"},
  "embeddings": {"type": "array", "items": {"$ref": "#/components/schemas/VectorOrText"}},
  "total_duration": {"type": "integer", "description": "ns"}, "load_duration": {"type": "integer", "description": "ns"},
  "prompt_eval_count": {"type": "integer", "description": "Tokens embedded"}}},
"OllamaLegacyRequest": {"type": "object", "required": ["prompt"], "properties": {
  "model": {"type": ["string", "null"]}, "prompt": {"type": "string"},
  "truncate": {"type": ["boolean", "null"]},
  "dimensions": {"$ref": "#/components/schemas/Dimensions"},
  "encoding_format": {"enum": ["float", "base64", "base64_int8", "base64_binary", null]},
  "options": {"$ref": "#/components/schemas/OllamaOptions"},
  "keep_alive": {"$ref": "#/components/schemas/KeepAlive"}}},
"OllamaLegacyResponse": {"type": "object", "required": ["embedding"], "properties": {
  "embedding": {"$ref": "#/components/schemas/VectorOrText"}}},
"OllamaDetails": {"type": "object", "required": ["format", "family", "parameter_size", "quantization_level"], "properties": {
  "parent_model": {"type": "string"}, "format": {"type": "string"}, "family": {"type": "string"},
  "families": {"type": "array", "items": {"type": "string"}},
  "parameter_size": {"type": "string"}, "quantization_level": {"type": "string"}}},
"OllamaModel": {"type": "object", "required": ["name", "model", "size", "digest", "details"], "properties": {
  "name": {"type": "string"}, "model": {"type": "string"}, "size": {"type": "integer"}, "digest": {"type": "string"},
  "modified_at": {"type": "string"}, "expires_at": {"type": "string"}, "size_vram": {"type": "integer"},
  "context_length": {"type": "integer"}, "details": {"$ref": "#/components/schemas/OllamaDetails"}}},
"OllamaTags": {"type": "object", "required": ["models"], "properties": {
  "models": {"type": "array", "items": {"$ref": "#/components/schemas/OllamaModel"}}}},
"OllamaRunning": {"type": "object", "required": ["models"], "properties": {
  "models": {"type": "array", "items": {"$ref": "#/components/schemas/OllamaModel"}}}},
"OllamaShowRequest": {"type": "object", "properties": {
  "model": {"type": "string"}, "name": {"type": "string"}}, "anyOf": [{"required": ["model"]}, {"required": ["name"]}]},
"OllamaShowResponse": {"type": "object", "required": ["details", "model_info", "capabilities"], "properties": {
  "details": {"$ref": "#/components/schemas/OllamaDetails"}, "model_info": {"type": "object"},
  "capabilities": {"type": "array", "items": {"type": "string"}}, "modified_at": {"type": "string"}}},
"OllamaVersion": {"type": "object", "required": ["version"], "properties": {"version": {"type": "string"}}},

"TeiEmbedRequest": {"type": "object", "required": ["inputs"], "properties": {
  "inputs": {"$ref": "#/components/schemas/Input"},
  "truncate": {"type": ["boolean", "null"], "description": "true by default"},
  "truncation_direction": {"$ref": "#/components/schemas/Direction"},
  "normalize": {"type": ["boolean", "null"], "description": "true by default"},
  "average_long": {"type": ["boolean", "null"], "description": "Embed what is too long in parts and average these"},
  "prompt_name": {"type": ["string", "null"]}, "prompt": {"type": ["string", "null"]},
  "dimensions": {"$ref": "#/components/schemas/Dimensions"}}},
"TeiEmbedResponse": {"type": "array", "items": {"$ref": "#/components/schemas/Vector"}},
"TeiEmbedAllRequest": {"type": "object", "required": ["inputs"], "properties": {
  "inputs": {"$ref": "#/components/schemas/Input"},
  "truncate": {"type": ["boolean", "null"]}, "truncation_direction": {"$ref": "#/components/schemas/Direction"},
  "prompt_name": {"type": ["string", "null"]}, "prompt": {"type": ["string", "null"]}}},
"TeiEmbedAllResponse": {"type": "array", "items": {"type": "array", "items": {"$ref": "#/components/schemas/Vector"}}},
"TeiSparseRequest": {"type": "object", "required": ["inputs"], "properties": {
  "inputs": {"$ref": "#/components/schemas/Input"},
  "truncate": {"type": ["boolean", "null"]}, "truncation_direction": {"$ref": "#/components/schemas/Direction"},
  "prompt_name": {"type": ["string", "null"]}, "prompt": {"type": ["string", "null"]}}},
"TeiSparseResponse": {"type": "array", "items": {"type": "array", "items": {"type": "object", "required": ["index", "value"], "properties": {
  "index": {"type": "integer"}, "value": {"type": "number"}}}}},
"TeiRerankRequest": {"type": "object", "required": ["query", "texts"], "properties": {
  "query": {"type": "string"}, "texts": {"$ref": "#/components/schemas/Texts"},
  "raw_scores": {"type": ["boolean", "null"]}, "return_text": {"type": ["boolean", "null"]},
  "truncate": {"type": ["boolean", "null"]}, "truncation_direction": {"$ref": "#/components/schemas/Direction"}}},
"TeiRerankResponse": {"type": "array", "items": {"type": "object", "required": ["index", "score"], "properties": {
  "index": {"type": "integer"}, "score": {"type": "number"}, "text": {"type": "string"}}}},
"TeiPredictRequest": {"type": "object", "required": ["inputs"], "properties": {
  "inputs": {"description": "A text, a pair of texts, or a batch of lists of one text or two", "anyOf": [{"type": "string"},
    {"$ref": "#/components/schemas/TeiOneOrPair"},
    {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"$ref": "#/components/schemas/TeiOneOrPair"}}]},
  "raw_scores": {"type": ["boolean", "null"]},
  "truncate": {"type": ["boolean", "null"]}, "truncation_direction": {"$ref": "#/components/schemas/Direction"}}},
"TeiOneOrPair": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
"TeiLabels": {"type": "array", "items": {"type": "object", "required": ["score", "label"], "properties": {
  "score": {"type": "number"}, "label": {"type": "string"}}}},
"TeiPredictResponse": {"description": "The classes by falling score; of a batch a list of such lists", "anyOf": [
  {"$ref": "#/components/schemas/TeiLabels"}, {"type": "array", "items": {"$ref": "#/components/schemas/TeiLabels"}}]},
"TeiSimilarityRequest": {"type": "object", "required": ["inputs"], "properties": {
  "inputs": {"type": "object", "required": ["source_sentence", "sentences"], "properties": {
    "source_sentence": {"type": "string"}, "sentences": {"$ref": "#/components/schemas/Texts"}}},
  "parameters": {"type": ["object", "null"], "properties": {
    "truncate": {"type": ["boolean", "null"]}, "truncation_direction": {"$ref": "#/components/schemas/Direction"},
    "prompt_name": {"type": ["string", "null"]}, "prompt": {"type": ["string", "null"]}}}}},
"TeiSimilarityResponse": {"type": "array", "items": {"type": "number"}},
"TeiTokenizeRequest": {"type": "object", "required": ["inputs"], "properties": {
  "inputs": {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Texts"}]},
  "add_special_tokens": {"type": ["boolean", "null"], "description": "true by default"}}},
"TeiTokenizeResponse": {"type": "array", "items": {"type": "array", "items": {"type": "object",
  "required": ["id", "text", "special", "start", "stop"], "properties": {
    "id": {"type": "integer"}, "text": {"type": "string"}, "special": {"type": "boolean"},
    "start": {"type": ["integer", "null"], "description": "Bytes of the original text"}, "stop": {"type": ["integer", "null"]}}}}},
"TeiDecodeRequest": {"type": "object", "required": ["ids"], "properties": {
  "ids": {"anyOf": [{"$ref": "#/components/schemas/TokenIds"}, {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenIds"}}]},
  "skip_special_tokens": {"type": ["boolean", "null"], "description": "true by default"}}},
"TeiDecodeResponse": {"type": "array", "items": {"type": "string"}},
"TeiInfo": {"type": "object", "required": ["model_id", "max_input_length", "max_client_batch_size", "version", "prompts"], "properties": {
  "model_id": {"type": "string"}, "model_sha": {"type": ["string", "null"]}, "model_dtype": {"type": "string"},
  "model_type": {"type": "object"}, "max_input_length": {"type": "integer"}, "max_client_batch_size": {"type": "integer"},
  "max_body_bytes": {"type": "integer"}, "auto_truncate": {"type": "boolean"}, "tokenization_workers": {"type": "integer"},
  "version": {"type": "string"}, "architecture": {"type": "string"}, "numeric_class": {"type": "string"},
  "dimensions": {"type": "integer"}, "matryoshka_dimensions": {"type": "array", "items": {"type": "integer"}},
  "vocab_size": {"type": "integer"}, "prompts": {"type": "object", "additionalProperties": {"type": "string"}},
  "default_prompt_name": {"type": "string"}, "models": {"type": "array", "items": {"type": "string"}}}},

"CohereType": {"enum": ["float", "int8", "uint8", "binary", "ubinary", "base64"]},
"CohereEmbedRequest": {"type": "object", "properties": {
  "model": {"type": ["string", "null"]}, "texts": {"$ref": "#/components/schemas/Texts"},
  "inputs": {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"type": "object", "required": ["content"], "properties": {
    "content": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["type", "text"], "properties": {
      "type": {"const": "text"}, "text": {"type": "string"}}}}}}},
  "images": {"type": "null", "description": "Not supported"},
  "input_type": {"type": ["string", "null"]},
  "embedding_types": {"type": ["array", "null"], "minItems": 1, "items": {"$ref": "#/components/schemas/CohereType"}},
  "truncate": {"enum": ["NONE", "START", "END", null], "description": "END by default"},
  "output_dimension": {"$ref": "#/components/schemas/Dimensions"}},
  "oneOf": [{"required": ["texts"]}, {"required": ["inputs"]}]},
"CohereByType": {"type": "object", "properties": {
  "float": {"type": "array", "items": {"$ref": "#/components/schemas/Vector"}},
  "int8": {"type": "array", "items": {"$ref": "#/components/schemas/Vector"}},
  "uint8": {"type": "array", "items": {"$ref": "#/components/schemas/Vector"}},
  "binary": {"type": "array", "items": {"$ref": "#/components/schemas/Vector"}},
  "ubinary": {"type": "array", "items": {"$ref": "#/components/schemas/Vector"}},
  "base64": {"type": "array", "items": {"type": "string"}}}},
"CohereMeta": {"type": "object", "properties": {
  "api_version": {"type": "object"}, "billed_units": {"type": "object"}}},
"CohereEmbedResponse": {"type": "object", "required": ["id", "embeddings", "texts", "meta"], "properties": {
  "id": {"type": "string"}, "response_type": {"type": "string"}, "embeddings": {"$ref": "#/components/schemas/CohereByType"},
  "texts": {"type": "array", "items": {"type": "string"}}, "meta": {"$ref": "#/components/schemas/CohereMeta"}}},
"CohereV1EmbedRequest": {"type": "object", "required": ["texts"], "properties": {
  "model": {"type": ["string", "null"]}, "texts": {"$ref": "#/components/schemas/Texts"}, "input_type": {"type": ["string", "null"]},
  "embedding_types": {"type": ["array", "null"], "minItems": 1, "items": {"$ref": "#/components/schemas/CohereType"}},
  "truncate": {"enum": ["NONE", "START", "END", null]}, "output_dimension": {"$ref": "#/components/schemas/Dimensions"}}},
"CohereV1EmbedResponse": {"type": "object", "required": ["id", "embeddings", "texts", "meta"], "properties": {
  "id": {"type": "string"}, "response_type": {"type": "string"},
  "embeddings": {"oneOf": [{"type": "array", "items": {"$ref": "#/components/schemas/Vector"}}, {"$ref": "#/components/schemas/CohereByType"}]},
  "texts": {"type": "array", "items": {"type": "string"}}, "meta": {"$ref": "#/components/schemas/CohereMeta"}}},
"RerankRequest": {"type": "object", "required": ["query", "documents"], "properties": {
  "model": {"type": ["string", "null"]}, "query": {"type": "string"},
  "documents": {"type": "array", "minItems": 1, "maxItems": 2048, "description": "Texts, or objects with a text", "items": {"anyOf": [
    {"type": "string"}, {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}]}},
  "top_n": {"type": ["integer", "null"], "minimum": 1},
  "top_k": {"type": ["integer", "null"], "minimum": 1, "description": "Voyage: as top_n"},
  "max_tokens_per_doc": {"type": ["integer", "null"], "minimum": 1},
  "return_documents": {"type": ["boolean", "null"]}, "truncate": {"type": ["boolean", "null"]},
  "truncation": {"type": ["boolean", "null"], "description": "Voyage: as truncate"}}},
"RankedDocument": {"type": "object", "required": ["index", "relevance_score"], "properties": {
  "index": {"type": "integer"}, "relevance_score": {"type": "number"},
  "document": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}]}}},
"RerankResponse": {"description": "results; data for Voyage", "type": "object", "properties": {
  "id": {"type": "string"}, "model": {"type": "string"}, "object": {"const": "list"},
  "results": {"type": "array", "items": {"$ref": "#/components/schemas/RankedDocument"}},
  "data": {"type": "array", "items": {"$ref": "#/components/schemas/RankedDocument"}},
  "usage": {"$ref": "#/components/schemas/Usage"}, "meta": {"type": "object"}},
  "anyOf": [{"required": ["results"]}, {"required": ["data"]}]},

"ContextualRequest": {"type": "object", "required": ["model"], "properties": {
  "model": {"type": "string", "minLength": 1},
  "input": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Texts"}},
  "inputs": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Texts"}},
  "late_chunking": {"type": ["boolean", "null"], "description": "Also by a model that was not trained on chunks, if it pools by the mean"},
  "dimensions": {"$ref": "#/components/schemas/Dimensions"},
  "encoding_format": {"enum": ["float", "base64", "base64_int8", "base64_binary", null]},
  "normalize": {"type": ["boolean", "null"]},
  "input_type": {"type": ["string", "null"]}, "truncation": {"type": ["boolean", "null"]},
  "output_dimension": {"$ref": "#/components/schemas/Dimensions"},
  "output_dtype": {"enum": ["float", "int8", "uint8", "binary", "ubinary", null], "description": "Voyage"}},
  "anyOf": [{"required": ["input"]}, {"required": ["inputs"]}]},
"ContextualResponse": {"type": "object", "required": ["object", "data", "model", "usage"], "properties": {
  "object": {"const": "list"}, "model": {"type": "string"}, "usage": {"$ref": "#/components/schemas/Usage"},
  "data": {"type": "array", "items": {"type": "object", "required": ["object", "index", "data"], "properties": {
    "object": {"const": "list"}, "index": {"type": "integer"},
    "data": {"type": "array", "items": {"type": "object", "required": ["object", "index", "embedding"], "properties": {
      "object": {"const": "embedding"}, "index": {"type": "integer"},
      "embedding": {"$ref": "#/components/schemas/VectorOrText"}}}}}}}}},
"TextOrTexts": {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Texts"}]},
"ScoreRequest": {"type": "object", "properties": {
  "model": {"type": ["string", "null"]},
  "text_1": {"$ref": "#/components/schemas/TextOrTexts"}, "text_2": {"$ref": "#/components/schemas/TextOrTexts"},
  "queries": {"$ref": "#/components/schemas/TextOrTexts"}, "documents": {"$ref": "#/components/schemas/TextOrTexts"},
  "truncate": {"type": ["boolean", "null"]}, "truncation_direction": {"$ref": "#/components/schemas/Direction"}},
  "allOf": [{"oneOf": [{"required": ["text_1"]}, {"required": ["queries"]}]},
            {"oneOf": [{"required": ["text_2"]}, {"required": ["documents"]}]}]},
"ScoreResponse": {"type": "object", "required": ["id", "object", "model", "data", "usage"], "properties": {
  "id": {"type": "string"}, "object": {"const": "list"}, "model": {"type": "string"},
  "data": {"type": "array", "items": {"type": "object", "required": ["index", "object", "score"], "properties": {
    "index": {"type": "integer"}, "object": {"const": "score"}, "score": {"type": "number"}}}},
  "usage": {"$ref": "#/components/schemas/Usage"}}},

"Root": {"type": "object", "required": ["status", "name", "docs", "openapi", "health", "routes"], "properties": {
  "status": {"const": "ok"}, "name": {"type": "string"}, "version": {"type": "string"}, "docs": {"type": "string"},
  "openapi": {"type": "string"}, "health": {"type": "string"}, "routes": {"type": "array", "items": {"type": "string"}}}}
})json";

}  // namespace

std::string_view OpenApiSchemas() { return {kSchemas, sizeof(kSchemas) - 1}; }

}  // namespace pergola::gateway
