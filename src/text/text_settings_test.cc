#include "text/text_settings.h"

#include <gtest/gtest.h>

namespace pergola::text {
namespace {

std::shared_ptr<const TextModel> Model(bool with_template = false) {
  TextModelConfig config;
  config.prompts = {{"query", "find: "}, {"document", "about: "}};
  config.default_prompt_name = "query";
  if (with_template) config.pair_template = PairTemplate{"<", "{instruction}", ">", "judge"};
  return std::make_shared<TextModel>(std::move(config));
}

std::string Prompt(const TextModel& model, const std::string& name) {
  PrepareOptions options;
  if (!name.empty()) options.prompt_name = name;
  const Result<std::string> prompt = model.ResolvePrompt(options);
  return prompt.ok() ? *prompt : prompt.status().message();
}

TEST(TextSettingsTest, NothingSaidIsTheSameModel) {
  const auto model = Model();
  const auto same = WithSettings(model, {});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(*same, model);
}

TEST(TextSettingsTest, PromptsAreAddedOrReplaced) {
  const auto changed = WithSettings(
      Model(), {.prompts = {{"query", "q: "}, {"code", "c: "}}, .default_prompt_name = "code"});
  ASSERT_TRUE(changed.ok()) << changed.status().ToString();
  EXPECT_EQ(Prompt(**changed, "query"), "q: ");
  EXPECT_EQ(Prompt(**changed, "document"), "about: ");
  EXPECT_EQ(Prompt(**changed, ""), "c: ");
}

TEST(TextSettingsTest, RefusesADefaultThatIsNotThere) {
  EXPECT_EQ(WithSettings(Model(), {.default_prompt_name = "none"}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(TextSettingsTest, ReplacesTheInstructionOfATemplateOnly) {
  const auto changed = WithSettings(Model(true), {.pair_instruction = "rank"});
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ((*changed)->config().pair_template->instruction, "rank");
  EXPECT_FALSE(WithSettings(Model(), {.pair_instruction = "rank"}).ok());
}

}  // namespace
}  // namespace pergola::text
