#include "gateway/embed_path.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "gateway/json_reader.h"
#include "gateway/testing/fake_model.h"
#include "gateway/text_routes.h"

namespace pergola::gateway {
namespace {

// Gives up when asked for the fourth time.
class PatienceOfThree {
 public:
  GivenUp given_up() {
    return [this]() -> MaybeFailure {
      if (++asked_ <= 3) return std::nullopt;
      return Failure{DeadlineExceededError("too late"), "", "", false};
    };
  }
  int asked() const { return asked_; }

 private:
  int asked_ = 0;
};

class EmbedPathTest : public ::testing::Test {
 protected:
  EmbedPathTest() { options_.models.push_back(testing::MakeFakeModel().served); }

  RoutesOptions options_;
  PatienceOfThree patience_;
};

TEST_F(EmbedPathTest, TokenisingEndsWhenNobodyWaitsForIt) {
  EmbedCall call;
  call.prompt = std::string(1000, 'p');
  call.inputs.texts = std::vector<std::string>(100, "text");
  PreparedEmbed prepared;
  const MaybeFailure failure =
      PrepareEmbed(options_, std::move(call), patience_.given_up(), &prepared);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(prepared.request.sequences.size(), 3u);
  EXPECT_EQ(patience_.asked(), 4);
}

TEST_F(EmbedPathTest, TheTokenizeRouteEndsWhenNobodyWaitsForIt) {
  const auto body = JsonDocument::Parse(R"({"inputs":["a","b","c","d","e","f"]})");
  ASSERT_TRUE(body.ok());
  AnswerParts parts;
  const MaybeFailure failure = Tokenize(options_, (*body)->root(), patience_.given_up(), &parts);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(patience_.asked(), 4);
  EXPECT_FALSE(parts);
}

}  // namespace
}  // namespace pergola::gateway
