#include "eval/dataset.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"

namespace pergola::eval {
namespace {

class DatasetTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) { folder_.Write(name, text); }
  std::string Path(const std::string& name) { return (folder_.path() / name).string(); }
  std::string Folder() { return folder_.path().string(); }

  TempFolder folder_;
};

TEST_F(DatasetTest, ReadsBeirAndKeepsJudgedQueriesOnly) {
  Write("corpus.jsonl",
        "{\"_id\":\"d1\",\"title\":\"Vines\",\"text\":\"climb\"}\r\n"
        "{\"_id\":\"d2\",\"title\":\"\",\"text\":\"rain\"}\n\n");
  Write("queries.jsonl", "{\"_id\":\"q1\",\"text\":\"a\"}\n{\"_id\":\"q2\",\"text\":\"b\"}\n");
  Write("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq2\td1\t2\nq2\td2\t0\n");
  const auto dataset = ReadBeir(Folder(), "test");
  ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
  EXPECT_EQ(dataset->documents, (std::vector<std::string>{"Vines climb", "rain"}));
  EXPECT_EQ(dataset->queries, (std::vector<std::string>{"b"}));
  EXPECT_EQ(dataset->relevant[0], (std::map<uint32_t, double>{{0, 2.0}}));
}

TEST_F(DatasetTest, NamesFileAndLineOfWhatIsWrong) {
  Write("corpus.jsonl", "{\"_id\":\"d1\",\"text\":\"a\"}\n{\"_id\":\"d1\",\"text\":\"b\"}\n");
  EXPECT_EQ(ReadBeir(Folder(), "test").status().message(),
            Path("corpus.jsonl") + ":2: the same _id twice");
  Write("corpus.jsonl", "{\"_id\":\"d1\",\"text\":\"a\"}\n");
  EXPECT_EQ(ReadBeir(Folder(), "test").status().code(), StatusCode::kNotFound);
  Write("queries.jsonl", "{\"_id\":\"q\"}\n");
  EXPECT_EQ(ReadBeir(Folder(), "test").status().message(),
            Path("queries.jsonl") + ":1: no string 'text'");
  Write("queries.jsonl", "{\"_id\":\"q\",\"text\":\"a\"}\n");
  Write("qrels/dev.tsv", "q\td9\t1\n");
  EXPECT_EQ(ReadBeir(Folder(), "dev").status().message(),
            Path("qrels/dev.tsv") + ":1: no document 'd9'");
  Write("qrels/dev.tsv", "q\td1\t0\n");
  EXPECT_EQ(ReadBeir(Folder(), "dev").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DatasetTest, ReadsPairsFromJsonLinesAndTabs) {
  Write("a.jsonl",
        "{\"sentence1\":\"a\",\"sentence2\":\"b\",\"score\":4}\n"
        "{\"sentence1\":\"c\",\"sentence2\":\"d\",\"score\":0.5}\n");
  const auto json = ReadSimilarityPairs(Path("a.jsonl"));
  ASSERT_TRUE(json.ok()) << json.status().ToString();
  EXPECT_EQ(json->second, (std::vector<std::string>{"b", "d"}));
  EXPECT_EQ(json->grades, (std::vector<double>{4, 0.5}));
  Write("a.tsv", "a\tb\t4\nc\td\t0.5\n");
  const auto tabs = ReadSimilarityPairs(Path("a.tsv"));
  ASSERT_TRUE(tabs.ok()) << tabs.status().ToString();
  EXPECT_EQ(tabs->first, json->first);
  EXPECT_EQ(tabs->grades, json->grades);
  Write("a.tsv", "a\tb\t4\nc\td\n");
  EXPECT_EQ(ReadSimilarityPairs(Path("a.tsv")).status().message(),
            Path("a.tsv") + ":2: not two texts and a grade");
}

}  // namespace
}  // namespace pergola::eval
