#include "gateway/openapi.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gateway/json_writer.h"
#include "gateway/route_table.h"

namespace pergola::gateway {
namespace {

struct StatusText {
  int status;
  std::string_view description;
};

constexpr StatusText kPostErrors[] = {
    {400, "The request is wrong: JSON, a field, a limit, or the model cannot do it"},
    {401, "A key is needed"},
    {404, "The model is not served"},
    {405, "Another method"},
    {408, "The request arrived too slowly"},
    {413, "The body is too large"},
    {415, "The content type or encoding is not understood"},
    {429, "Too much work is queued; Retry-After says when to come back"},
    {431, "The header is too large"},
    {500, "The engine failed for this request"},
    {503, "No model answers; Retry-After says when to come back"},
    {504, "The deadline passed"},
};
constexpr int kGetErrors[] = {400, 401, 405, 408, 431, 500, 503};

std::string_view ErrorSchema(Envelope envelope) {
  switch (envelope) {
    case Envelope::kOpenAi:
    case Envelope::kVoyage:
      return "OpenAiError";
    case Envelope::kTei:
      return "TeiError";
    case Envelope::kCohere2:
      return "CohereError";
    case Envelope::kSplit:
      return "CohereV1Error";
    case Envelope::kPlain:
      break;
  }
  return "PlainError";
}

void AppendReference(std::string_view schema, std::string* out) {
  out->append("{\"$ref\":\"#/components/schemas/").append(schema).append("\"}");
}

void AppendResponse(int status, std::string_view description, std::string_view content_type,
                    std::string_view schema, std::string* out) {
  if (out->back() != '{') out->push_back(',');
  AppendJsonString(std::to_string(status), out);
  out->append(":{\"description\":");
  AppendJsonString(description, out);
  out->append(",\"content\":{");
  AppendJsonString(content_type, out);
  out->append(":{\"schema\":");
  if (schema.empty()) {
    out->append("{\"type\":\"string\"}");
  } else {
    AppendReference(schema, out);
  }
  out->append("}}}");
}

std::string_view ContentType(Action action) {
  if (action == Action::kDocs) return "text/html";
  if (action == Action::kMetrics) return "text/plain";
  return "application/json";
}

void AppendErrors(const Route& route, std::string* out) {
  const std::string_view schema = ErrorSchema(route.envelope);
  for (const StatusText& error : kPostErrors) {
    const bool of_get = std::find(std::begin(kGetErrors), std::end(kGetErrors), error.status) !=
                            std::end(kGetErrors) ||
                        (error.status == 404 && route.action == Action::kModel);
    if (route.method == "POST" || of_get) {
      AppendResponse(error.status, error.description, "application/json", schema, out);
    }
    if (error.status == 415 && route.method == "POST" && route.envelope == Envelope::kTei) {
      AppendResponse(422, "A field is wrong, or the model cannot do it", "application/json", schema,
                     out);
    }
  }
}

std::string OperationId(const Route& route) {
  std::string id(route.method == "GET" ? "get" : "post");
  for (const char c : route.path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    id.push_back(plain ? c : '_');
  }
  return id;
}

void AppendOperation(const Route& route, std::string* out) {
  AppendJsonString(route.method == "GET" ? "get" : "post", out);
  out->append(":{\"operationId\":");
  AppendJsonString(OperationId(route), out);
  out->append(",\"tags\":[");
  AppendJsonString(route.tag, out);
  out->append("],\"summary\":");
  AppendJsonString(route.summary, out);
  if (route.path.ends_with("{id}")) {
    out->append(
        ",\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,\"description\":"
        "\"As /v1/models lists it; a slash may stand plain or encoded\","
        "\"schema\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$\"}}]");
  }
  if (route.takes_body()) {
    out->append(
        ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":");
    AppendReference(route.request_schema, out);
    out->append("}}}");
  }
  out->append(",\"responses\":{");
  AppendResponse(200, "The answer", ContentType(route.action), route.response_schema, out);
  AppendErrors(route, out);
  out->append("}}");
}

// Paths in the order of the table, each with all its methods.
void AppendPaths(std::string* out) {
  std::vector<std::string_view> done;
  for (const Route& route : RouteTable()) {
    if (std::find(done.begin(), done.end(), route.path) != done.end()) continue;
    done.push_back(route.path);
    if (done.size() > 1) out->push_back(',');
    AppendJsonString(route.path, out);
    out->append(":{");
    bool first = true;
    for (const Route& other : RouteTable()) {
      if (other.path != route.path) continue;
      if (!first) out->push_back(',');
      first = false;
      AppendOperation(other, out);
    }
    out->push_back('}');
  }
}

constexpr std::string_view kDescription =
    "One port, many dialects: a vector depends on its text alone, not on the route. Every answer "
    "has "
    "x-request-id. A request may carry x-request-timeout-ms; past it the answer is 504. "
    "x-truncated "
    "tells how many inputs were cut.";

}  // namespace

std::string DescribeOpenApi(std::string_view version) {
  std::string out = "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"Pergola\",\"version\":";
  AppendJsonString(version, &out);
  out.append(",\"description\":");
  AppendJsonString(kDescription, &out);
  out.append(",\"license\":{\"name\":\"Apache-2.0\",\"identifier\":\"Apache-2.0\"}}");
  out.append(",\"security\":[{},{\"key\":[]}],\"paths\":{");
  AppendPaths(&out);
  out.append(
      "},\"components\":{\"securitySchemes\":{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}},"
      "\"schemas\":");
  out.append(OpenApiSchemas());
  out.append("}}");
  return out;
}

}  // namespace pergola::gateway
