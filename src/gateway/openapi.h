// /openapi.json: OpenAPI 3.1 made from the route table, so that it lists exactly what is served.
#pragma once

#include <string>
#include <string_view>

namespace pergola::gateway {

// `version` of the server.
std::string DescribeOpenApi(std::string_view version);

// components.schemas, a JSON object (openapi_schemas.cc).
std::string_view OpenApiSchemas();

}  // namespace pergola::gateway
