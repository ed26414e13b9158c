// libFuzzer: any body on any route is answered once, with valid JSON and a status that the contract
// knows. The first byte picks the route, the second the options, the rest is the body.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "gateway/json_reader.h"
#include "gateway/route_table.h"
#include "gateway/routes.h"
#include "gateway/testing/ask.h"
#include "gateway/testing/fake_model.h"

namespace {

using pergola::gateway::HttpResponse;
using pergola::gateway::JsonDocument;
using pergola::gateway::Routes;
using pergola::gateway::RoutesOptions;

Routes& TheRoutes(bool strict) {
  const auto make = [](bool is_strict) {
    RoutesOptions options;
    options.models.push_back(pergola::gateway::testing::MakeFakeModel().served);
    options.strict_model = is_strict;
    options.max_batch_inputs = 8;
    options.inline_body_bytes = int64_t{1} << 30;
    return std::make_unique<Routes>(std::move(options));
  };
  static const auto lenient = make(false);
  static const auto exact = make(true);
  return strict ? *exact : *lenient;
}

void Require(bool truth) {
  if (!truth) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto table = pergola::gateway::RouteTable();
  const auto& route = table[data[0] % table.size()];
  pergola::gateway::testing::Question question;
  question.method = std::string(route.method);
  question.path = std::string(route.path);
  question.body.assign(reinterpret_cast<const char*>(data) + 2, size - 2);
  const HttpResponse response =
      pergola::gateway::testing::Ask(TheRoutes(data[1] % 2 == 1), std::move(question));
  Require(response.status == 200 || response.status == 400 || response.status == 404 ||
          response.status == 422);
  if (response.content_type == "application/json") {
    Require(JsonDocument::Parse(response.body).ok());
  }
  return 0;
}
