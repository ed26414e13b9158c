#include "gateway/openapi.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <set>
#include <string>

#include "gateway/docs_page.h"
#include "gateway/route_table.h"

namespace pergola::gateway {
namespace {

namespace dom = simdjson::dom;

class OpenApiTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_FALSE(parser_.parse(text_).get(root_)); }

  const std::string text_ = DescribeOpenApi("1.2.3");
  dom::parser parser_;
  dom::element root_;
};

TEST_F(OpenApiTest, ListsExactlyTheServedRoutes) {
  std::set<std::string> described;
  dom::object paths;
  ASSERT_FALSE(root_["paths"].get(paths));
  for (const auto path : paths) {
    dom::object methods;
    ASSERT_FALSE(path.value.get(methods));
    for (const auto method : methods) {
      std::string name(method.key);
      for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      EXPECT_TRUE(described.insert(name + " " + std::string(path.key)).second);
    }
  }
  std::set<std::string> served;
  for (const Route& route : RouteTable()) {
    EXPECT_TRUE(served.insert(std::string(route.method) + " " + std::string(route.path)).second);
  }
  EXPECT_EQ(described, served);
}

TEST_F(OpenApiTest, EveryOperationHasABodyIfItTakesOneAndEveryReferenceIsDefined) {
  dom::object schemas;
  ASSERT_FALSE(root_["components"]["schemas"].get(schemas));
  std::set<std::string> defined;
  for (const auto schema : schemas) EXPECT_TRUE(defined.insert(std::string(schema.key)).second);
  std::set<std::string> used;
  constexpr std::string_view kPrefix = "#/components/schemas/";
  for (size_t at = text_.find(kPrefix); at != std::string::npos; at = text_.find(kPrefix, at)) {
    at += kPrefix.size();
    used.insert(text_.substr(at, text_.find('"', at) - at));
  }
  EXPECT_EQ(used, defined);
  for (const Route& route : RouteTable()) {
    dom::element operation;
    const std::string method = route.method == "POST" ? "post" : "get";
    ASSERT_FALSE(root_["paths"].at_key(route.path).at_key(method).get(operation)) << route.path;
    EXPECT_EQ(operation["requestBody"].error() == simdjson::SUCCESS, route.takes_body());
    EXPECT_EQ(operation["responses"]["200"].error(), simdjson::SUCCESS) << route.path;
  }
}

TEST_F(OpenApiTest, SaysItsVersions) {
  EXPECT_EQ(root_["openapi"].get_string().value(), "3.1.0");
  EXPECT_EQ(root_["info"]["version"].get_string().value(), "1.2.3");
}

TEST(RouteTableTest, EmbeddingRoutesHaveAParserAndRoutesASummary) {
  for (const Route& route : RouteTable()) {
    EXPECT_EQ(route.parse != nullptr, route.action == Action::kEmbed) << route.path;
    EXPECT_FALSE(route.summary.empty()) << route.path;
    EXPECT_EQ(route.request_schema.empty(), !route.takes_body()) << route.path;
    EXPECT_EQ(FindRoute(route.method, route.path), &route);
  }
}

TEST(DocsPageTest, NamesEveryRouteAndLoadsNothingFromElsewhere) {
  const std::string page = DocsPage();
  for (const Route& route : RouteTable()) {
    const std::string name = std::string(route.method) + " " + std::string(route.path);
    EXPECT_NE(page.find("<code>" + name + "</code>"), std::string::npos) << name;
  }
  EXPECT_EQ(page.find("http://"), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
}

}  // namespace
}  // namespace pergola::gateway
