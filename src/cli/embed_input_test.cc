#include "cli/embed_input.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "core/testing/temp_folder.h"

namespace pergola::cli {
namespace {

std::vector<InputRecord> ReadAll(EmbedInput& input) {
  std::vector<InputRecord> records;
  InputRecord record;
  for (;;) {
    const Result<bool> more = input.Next(&record);
    EXPECT_TRUE(more.ok()) << more.status().ToString();
    if (!more.ok() || !*more) return records;
    records.push_back(record);
  }
}

std::vector<std::string> Texts(EmbedInput& input) {
  std::vector<std::string> texts;
  for (const InputRecord& record : ReadAll(input)) {
    texts.push_back(record.status.ok() ? record.text : "!" + record.status.message());
  }
  return texts;
}

class EmbedInputTest : public ::testing::Test {
 protected:
  std::unique_ptr<EmbedInput> Open(const std::string& name, const std::string& content,
                                   EmbedInputOptions options = {}) {
    return OpenEmbedInput({folder_.Write(name, content).string()}, options).value();
  }
  TempFolder folder_;
};

using Strings = std::vector<std::string>;

TEST_F(EmbedInputTest, EveryLineIsAText) {
  EXPECT_EQ(Texts(*Open("a", "one\ntwo\r\n\n four \nlast")),
            (Strings{"one", "two", "", " four ", "last"}));
  EXPECT_EQ(Texts(*Open("b", "one\n")), Strings{"one"});
  EXPECT_EQ(Texts(*Open("c", "")), Strings{});
  EXPECT_EQ(Texts(*Open("d", std::string("a\0b\n", 4))), Strings{std::string("a\0b", 3)});
}

TEST_F(EmbedInputTest, DropsAByteOrderMarkAtTheBeginningOfAFile) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(Texts(*Open("a", mark + "one\n" + mark + "two\n")), (Strings{"one", mark + "two"}));
  EXPECT_EQ(Texts(*Open("b.jsonl", mark + R"({"text":"one"})" + "\n")), Strings{"one"});
  EXPECT_EQ(Texts(*Open("c", mark + mark)), Strings{mark});
  EXPECT_EQ(Texts(*Open("d", "\xEF\xBBx")), Strings{"!the line is not UTF-8"});
  const std::string second = folder_.Write("e", mark + "two\n").string();
  auto both = OpenEmbedInput({folder_.Write("f", "one\n").string(), second}, {}).value();
  EXPECT_EQ(Texts(*both), (Strings{"one", "two"}));
}

TEST_F(EmbedInputTest, LinesLongerThanABlockAreWhole) {
  const std::string line(700'001, 'x');
  EXPECT_EQ(Texts(*Open("a", line + "\n" + line)), (Strings{line, line}));
}

TEST_F(EmbedInputTest, TooLongLineIsBadAndTheNextIsFine) {
  EmbedInputOptions options;
  options.max_line_bytes = 10;
  const Strings texts =
      Texts(*Open("a", "0123456789\n" + std::string(1'000'000, 'x') + "\nok\n", options));
  EXPECT_EQ(texts, (Strings{"0123456789", "!the line is longer than 10 bytes", "ok"}));
}

TEST_F(EmbedInputTest, InvalidUtf8IsBad) {
  EXPECT_EQ(Texts(*Open("a", "ok\n\xff\n")), (Strings{"ok", "!the line is not UTF-8"}));
}

TEST_F(EmbedInputTest, JsonLinesByNameAndField) {
  const std::string json = "{\"text\":\"a\\u00e9\\n\",\"x\":1}\n\n\"plain\"\n";
  EXPECT_EQ(Texts(*Open("a.jsonl", json)), (Strings{"a\xc3\xa9\n", "plain"}));
  EmbedInputOptions options;
  options.field = "body";
  EXPECT_EQ(Texts(*Open("b.txt", "{\"body\":\"b\"}\n", options)), Strings{"b"});
  options.format = EmbedInputOptions::Format::kLines;
  EXPECT_EQ(Texts(*Open("c.jsonl", "{}\n", options)), Strings{"{}"});
}

TEST_F(EmbedInputTest, BadJsonLinesSayWhy) {
  const Strings texts = Texts(*Open("a.jsonl",
                                    "{\"text\":1}\n{\"other\":\"x\"}\n[1]\n{\"text\":\"\\ud800\"}"
                                    "\n{\"text\":\n{\"text\":\"ok\"}\n"));
  ASSERT_EQ(texts.size(), 6u);
  EXPECT_EQ(texts[0], "!member 'text' is not a string");
  EXPECT_EQ(texts[1], "!no member 'text'");
  EXPECT_EQ(texts[2], "!neither a JSON object nor a JSON string");
  EXPECT_TRUE(texts[3].starts_with("!not JSON")) << texts[3];
  EXPECT_TRUE(texts[4].starts_with("!not JSON")) << texts[4];
  EXPECT_EQ(texts[5], "ok");
}

TEST_F(EmbedInputTest, IndexCountsRecordsAndPlaceCountsLines) {
  const std::string first = folder_.Write("a.jsonl", "\n\"x\"\n\n{\n").string();
  const std::string second = folder_.Write("b.txt", "y\n").string();
  const auto input = OpenEmbedInput({first, second}, {}).value();
  EXPECT_EQ(input->total_bytes(), 10);
  const std::vector<InputRecord> records = ReadAll(*input);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].where, first + ":2");
  EXPECT_EQ(records[1].where, first + ":4");
  EXPECT_EQ(records[2].where, second + ":1");
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(records[static_cast<size_t>(i)].index, i);
  EXPECT_EQ(input->read_bytes(), 10);
}

TEST_F(EmbedInputTest, MissingFileIsToldBeforeAnythingIsRead) {
  const std::string there = folder_.Write("a", "x\n").string();
  const auto input = OpenEmbedInput({there, "/nonexistent"}, {});
  EXPECT_EQ(input.status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(OpenEmbedInput({folder_.path().string()}, {}).ok());
}

TEST_F(EmbedInputTest, StopEndsTheWaitForASilentPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto input = OpenEmbedInput({"/dev/fd/" + std::to_string(ends[0])}, {}).value();
  EXPECT_EQ(input->total_bytes(), -1);
  std::thread stopper([&] { input->Stop(); });
  InputRecord record;
  EXPECT_EQ(input->Next(&record).status().code(), StatusCode::kCancelled);
  stopper.join();
  close(ends[0]);
  close(ends[1]);
}

TEST(ArgumentInputTest, GivesTheTexts) {
  const auto input = MakeArgumentInput({"a", "", "\xff"});
  EXPECT_EQ(Texts(*input), (Strings{"a", "", "!the text is not UTF-8"}));
}

}  // namespace
}  // namespace pergola::cli
