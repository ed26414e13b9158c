// Runs the cases of tests/golden/http: every dialect's requests and exact answers, as data.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "gateway/routes.h"
#include "gateway/testing/ask.h"
#include "gateway/testing/fake_model.h"

namespace pergola::gateway {
namespace {

namespace dom = simdjson::dom;

std::string Minified(const dom::element& element) { return simdjson::minify(element); }

// Is `part` in `whole`? Objects may hold more; everything else is equal.
bool Holds(const dom::element& whole, const dom::element& part) {
  dom::object wanted;
  if (part.get(wanted)) return Minified(whole) == Minified(part);
  dom::object given;
  if (whole.get(given)) return false;
  for (const auto field : wanted) {
    dom::element value;
    if (given.at_key(field.key).get(value) || !Holds(value, field.value)) return false;
  }
  return true;
}

// As Holds, but inside lists too (a list of models whose members are only partly named).
bool HoldsInLists(const dom::element& whole, const dom::element& part) {
  dom::array wanted;
  dom::array given;
  if (!part.get(wanted) && !whole.get(given)) {
    if (wanted.size() != given.size()) return false;
    auto item = given.begin();
    for (const dom::element one : wanted) {
      if (!HoldsInLists(*item, one)) return false;
      ++item;
    }
    return true;
  }
  dom::object members;
  if (part.get(members)) return Holds(whole, part);
  dom::object owner;
  if (whole.get(owner)) return false;
  for (const auto field : members) {
    dom::element value;
    if (owner.at_key(field.key).get(value) || !HoldsInLists(value, field.value)) return false;
  }
  return true;
}

class RoutesGoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void Check(const dom::element& golden);
  void CheckBody(const dom::element& golden, const HttpResponse& response);
  void CheckHeaders(const dom::element& golden, const HttpResponse& response);

  static RoutesOptions Options(std::string_view kind) {
    RoutesOptions options;
    options.models.push_back(testing::MakeFakeModel(testing::FakeModelInfoOf(kind)).served);
    options.max_batch_inputs = 4;
    options.num_workers = 1;
    return options;
  }
};

void RoutesGoldenTest::CheckBody(const dom::element& golden, const HttpResponse& response) {
  dom::parser parser;
  dom::element answer;
  ASSERT_FALSE(parser.parse(response.body).get(answer)) << response.body;
  dom::element wanted;
  if (!golden["answer"].get(wanted)) {
    EXPECT_EQ(response.body, Minified(wanted));
  }
  if (!golden["has"].get(wanted)) {
    EXPECT_TRUE(HoldsInLists(answer, wanted)) << response.body << "\nlacks " << Minified(wanted);
  }
  dom::array list;
  if (!golden["members"].get(list)) {
    std::vector<std::string_view> names;
    std::vector<std::string_view> wanted_names;
    dom::object given;
    ASSERT_FALSE(answer.get(given)) << response.body;
    for (const auto field : given) names.push_back(field.key);
    for (const dom::element name : list) wanted_names.push_back(name.get_string().value());
    EXPECT_EQ(names, wanted_names);
  }
  if (!golden["says"].get(list)) {
    for (const dom::element text : list) {
      const std::string_view wanted_text = text.get_string().value();
      EXPECT_NE(response.body.find(wanted_text), std::string::npos)
          << response.body << "\ndoes not say " << wanted_text;
    }
  }
}

void RoutesGoldenTest::CheckHeaders(const dom::element& golden, const HttpResponse& response) {
  dom::object headers;
  bool truncated_named = false;
  if (!golden["answer_headers"].get(headers)) {
    for (const auto field : headers) {
      truncated_named |= field.key == "x-truncated";
      const std::string* value = testing::FindHeader(response, field.key);
      ASSERT_NE(value, nullptr) << "no header " << field.key;
      EXPECT_EQ(*value, field.value.get_string().value()) << field.key;
    }
  }
  if (!truncated_named) {
    EXPECT_EQ(testing::FindHeader(response, "x-truncated"), nullptr);
  }
}

void RoutesGoldenTest::Check(const dom::element& golden) {
  testing::Question question;
  question.path = std::string(golden["path"].get_string().value());
  dom::element json;
  std::string_view body;
  if (!golden["json"].get(json)) {
    question.body = Minified(json);
  } else if (!golden["body"].get(body)) {
    question.body = std::string(body);
  } else {
    question.method = "GET";
  }
  std::string_view served = "embedder";
  if (golden["served"].get(served)) served = "embedder";
  Routes routes(Options(served));
  const HttpResponse response = testing::Ask(routes, question);
  EXPECT_EQ(response.status, golden["status"].get_int64().value()) << response.body;
  EXPECT_EQ(response.content_type, "application/json");
  CheckBody(golden, response);
  CheckHeaders(golden, response);
}

TEST_P(RoutesGoldenTest, AnswersAsWritten) {
  dom::parser parser;
  dom::element file;
  const std::string path = std::string(PERGOLA_TEST_DATA) + "/golden/http/" + GetParam() + ".json";
  ASSERT_FALSE(parser.load(path).get(file)) << path;
  size_t count = 0;
  dom::array cases;
  ASSERT_FALSE(file["cases"].get(cases));
  for (const dom::element golden : cases) {
    SCOPED_TRACE(std::string(golden["name"].get_string().value()));
    Check(golden);
    ++count;
  }
  EXPECT_GE(count, 5u);
}

INSTANTIATE_TEST_SUITE_P(Dialects, RoutesGoldenTest,
                         ::testing::Values("openai", "jina_voyage", "perplexity", "ollama", "tei",
                                           "cohere", "score", "rerank", "predict", "sparse",
                                           "service"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace pergola::gateway
