#include "gateway/openapi.h"
namespace pergola::gateway {
std::string_view OpenApiSchemas() { return "{}"; }
}  // namespace pergola::gateway
