#include "gateway/route_table.h"

namespace pergola::gateway {
namespace {

constexpr Envelope kOpenAi = Envelope::kOpenAi;
constexpr Envelope kPlain = Envelope::kPlain;
constexpr Envelope kTei = Envelope::kTei;
constexpr Envelope kCohere2 = Envelope::kCohere2;
constexpr Envelope kSplit = Envelope::kSplit;

// clang-format off
constexpr Route kRoutes[] = {
    {"POST", "/v1/embeddings", Action::kEmbed, kOpenAi, ParseOpenAiEmbed, "OpenAI",
     "Embeddings, with the fields of OpenAI, Jina, Voyage and Perplexity", "EmbeddingsRequest", "EmbeddingsResponse"},
    {"POST", "/embeddings", Action::kEmbed, kOpenAi, ParseOpenAiEmbed, "OpenAI",
     "The same without the version", "EmbeddingsRequest", "EmbeddingsResponse"},
    {"GET", "/v1/models", Action::kModelList, kOpenAi, nullptr, "OpenAI", "The served models", "", "ModelList"},
    {"GET", "/v1/models/{id}", Action::kModel, kOpenAi, nullptr, "OpenAI", "One served model", "", "Model"},
    {"POST", "/api/embed", Action::kEmbed, kPlain, ParseOllamaEmbed, "Ollama", "Embeddings", "OllamaEmbedRequest", "OllamaEmbedResponse"},
    {"POST", "/api/embeddings", Action::kEmbed, kPlain, ParseOllamaLegacy, "Ollama",
     "One prompt, one vector (legacy)", "OllamaLegacyRequest", "OllamaLegacyResponse"},
    {"GET", "/api/tags", Action::kTags, kPlain, nullptr, "Ollama", "The served models", "", "OllamaTags"},
    {"GET", "/api/ps", Action::kRunning, kPlain, nullptr, "Ollama", "The loaded models", "", "OllamaRunning"},
    {"POST", "/api/show", Action::kShow, kPlain, nullptr, "Ollama", "What a model is", "OllamaShowRequest", "OllamaShowResponse"},
    {"GET", "/api/version", Action::kVersion, kPlain, nullptr, "Ollama", "The version of the API", "", "OllamaVersion"},
    {"POST", "/embed", Action::kEmbed, kTei, ParseTeiEmbed, "TEI", "Embeddings", "TeiEmbedRequest", "TeiEmbedResponse"},
    {"POST", "/", Action::kEmbed, kTei, ParseTeiEmbed, "TEI", "Embeddings, as /embed", "TeiEmbedRequest", "TeiEmbedResponse"},
    {"POST", "/embed_all", Action::kEmbed, kTei, ParseTeiEmbedAll, "TEI",
     "A vector per token, not normalised", "TeiEmbedAllRequest", "TeiEmbedAllResponse"},
    {"POST", "/embed_sparse", Action::kEmbed, kTei, ParseTeiSparse, "TEI", "Sparse embeddings, by a model that has them", "TeiSparseRequest", "TeiSparseResponse"},
    {"POST", "/rerank", Action::kEmbed, kTei, ParseTeiRerank, "TEI", "Texts by relevance, by a model that reranks", "TeiRerankRequest", "TeiRerankResponse"},
    {"POST", "/predict", Action::kEmbed, kTei, ParseTeiPredict, "TEI", "Labels, by a model that classifies", "TeiPredictRequest", "TeiPredictResponse"},
    {"POST", "/similarity", Action::kEmbed, kTei, ParseTeiSimilarity, "TEI", "Cosines of a sentence to others", "TeiSimilarityRequest", "TeiSimilarityResponse"},
    {"POST", "/tokenize", Action::kTokenize, kTei, nullptr, "TEI", "Token ids with byte offsets", "TeiTokenizeRequest", "TeiTokenizeResponse"},
    {"POST", "/decode", Action::kDecode, kTei, nullptr, "TEI", "Texts of token ids", "TeiDecodeRequest", "TeiDecodeResponse"},
    {"GET", "/info", Action::kInfo, kTei, nullptr, "TEI", "The model and its limits", "", "TeiInfo"},
    {"GET", "/health", Action::kReadyz, kTei, nullptr, "TEI", "Whether the model answers", "", "Health"},
    {"POST", "/v2/embed", Action::kEmbed, kCohere2, ParseCohereV2Embed, "Cohere", "Embeddings by type", "CohereEmbedRequest", "CohereEmbedResponse"},
    {"POST", "/v2/rerank", Action::kEmbed, kCohere2, ParseCohereV2Rerank, "Cohere", "Documents by relevance, by a model that reranks", "RerankRequest", "RerankResponse"},
    {"POST", "/v1/rerank", Action::kEmbed, kOpenAi, ParseRerank, "Cohere", "The same for Cohere v1, Jina and Voyage", "RerankRequest", "RerankResponse"},
    {"POST", "/v1/embed", Action::kCohereV1Embed, kSplit, nullptr, "Cohere", "Embeddings for Cohere v1: a body with texts", "CohereV1EmbedRequest", "CohereV1EmbedResponse"},
    {"POST", "/v1/contextualizedembeddings", Action::kEmbed, kOpenAi, ParseContextual, "Perplexity",
     "Embeddings of chunks within their documents, by a model that has them", "ContextualRequest", "ContextualResponse"},
    {"POST", "/score", Action::kEmbed, kOpenAi, ParseScore, "vLLM", "Scores of pairs of texts", "ScoreRequest", "ScoreResponse"},
    {"GET", "/", Action::kRoot, kPlain, nullptr, "Service", "What this server is", "", "Root"},
    {"GET", "/healthz", Action::kHealthz, kPlain, nullptr, "Service", "Whether the process is alive", "", "Health"},
    {"GET", "/readyz", Action::kReadyz, kPlain, nullptr, "Service", "Whether a model answers", "", "Health"},
    {"GET", "/docs", Action::kDocs, kPlain, nullptr, "Service", "A page to read and try"},
    {"GET", "/openapi.json", Action::kOpenApi, kPlain, nullptr, "Service", "This description", "", "Object"},
    {"GET", "/metrics", Action::kMetrics, kPlain, nullptr, "Service", "Counters in Prometheus text"},
};
// clang-format on

bool Matches(const Route& route, std::string_view path) {
  constexpr std::string_view kRest = "{id}";
  if (!route.path.ends_with(kRest)) return route.path == path;
  const std::string_view prefix = route.path.substr(0, route.path.size() - kRest.size());
  return path.size() > prefix.size() && path.starts_with(prefix);
}

}  // namespace

std::span<const Route> RouteTable() { return kRoutes; }

const Route* FindRoute(std::string_view method, std::string_view path) {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : kRoutes) {
    if (route.method == wanted && Matches(route, path)) return &route;
  }
  return nullptr;
}

std::string AllowedMethods(std::string_view path) {
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (!Matches(route, path)) continue;
    if (!allowed.empty()) allowed.append(", ");
    allowed.append(route.method == "GET" ? "GET, HEAD" : route.method);
  }
  return allowed;
}

Envelope EnvelopeOf(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (Matches(route, path)) return route.envelope;
  }
  if (path.starts_with("/v2/")) return kCohere2;
  if (path.starts_with("/v1/")) return kOpenAi;
  return kPlain;
}

std::string_view PatternOf(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (Matches(route, path)) return route.path;
  }
  return "(unknown)";
}

}  // namespace pergola::gateway
