// Files of slices by the byte, and nothing else of the disk.
#include "gateway/slice_share.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "core/testing/temp_folder.h"
#include "gateway/handler_chain.h"

namespace pergola::gateway {
namespace {

struct Answer {
  int status = 0;
  std::string body;
  std::string range;
};

class SliceShareTest : public ::testing::Test {
 protected:
  SliceShareTest() : content_(600'000, 'x') {
    for (size_t at = 0; at < content_.size(); ++at)
      content_[at] = static_cast<char>(at * 7 + at / 251);
    std::ofstream(folder_.path() / "ffn.gguf", std::ios::binary) << content_;
    std::ofstream(folder_.path() / "secret") << "secret";
    SharedSlices slices;
    slices.list = "{\"slices\":[]}";
    slices.files["low/ffn.gguf"] = {(folder_.path() / "ffn.gguf").string(),
                                    static_cast<int64_t>(content_.size())};
    share_ = std::make_shared<SliceShare>(std::move(slices));
  }
  Answer Ask(const std::string& path, const std::string& range = "") {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    if (!range.empty()) request.headers.push_back({"range", range});
    Answer answer;
    share_->Handle(std::move(request), [&](HttpResponse response) {
      answer.status = response.status;
      answer.body = response.body;
      for (const HttpHeader& header : response.headers) {
        if (header.name == "content-range") answer.range = header.value;
      }
      while (response.next_chunk && response.next_chunk(&answer.body)) {
      }
    });
    return answer;
  }

  TempFolder folder_;
  std::string content_;
  std::shared_ptr<SliceShare> share_;
};

TEST_F(SliceShareTest, AnswersWholeFilesAndRanges) {
  const std::string path = "/v1/slices/low/ffn.gguf";
  EXPECT_EQ(Ask("/v1/slices/slices.json").body, "{\"slices\":[]}");
  EXPECT_EQ(Ask(path).status, 200);
  EXPECT_EQ(Ask(path).body, content_);
  const Answer rest = Ask(path, "bytes=299999-");
  EXPECT_EQ(rest.status, 206);
  EXPECT_EQ(rest.range, "bytes 299999-599999/600000");
  EXPECT_EQ(rest.body, content_.substr(299999));
  EXPECT_EQ(Ask(path, "bytes=5-9").body, content_.substr(5, 5));
  EXPECT_EQ(Ask(path, "bytes=-7").body, content_.substr(content_.size() - 7));
  const Answer behind = Ask(path, "bytes=600000-");
  EXPECT_EQ(behind.status, 416);
  EXPECT_EQ(behind.range, "bytes */600000");
}

TEST_F(SliceShareTest, KnowsOnlyWhatIsInItsTable) {
  EXPECT_TRUE(share_->Check("GET", "/v1/slices/low/ffn.gguf").method_allowed);
  EXPECT_TRUE(share_->Check("GET", "/v1/slices/low/ffn.gguf").needs_auth);
  EXPECT_FALSE(share_->Check("POST", "/v1/slices/low/ffn.gguf").method_allowed);
  for (const char* path :
       {"/v1/slices", "/v1/slices/", "/v1/slices/low", "/v1/slices/low/", "/v1/slices/low/secret",
        "/v1/slices/low/../secret", "/v1/slices/../secret", "/v1/slices//low/ffn.gguf",
        "/v1/slices/low//ffn.gguf", "/v1/slices/low/./ffn.gguf", "/v1/slices/secret",
        "/v1/slices/low/ffn.gguf/", "/v1/slices/low\\ffn.gguf", "/etc/passwd",
        "/v1/slices/%2e%2e/secret", "/v1/slicesXlow/ffn.gguf"}) {
    EXPECT_FALSE(share_->Check("GET", path).path_known) << path;
    EXPECT_EQ(Ask(path).body.find("secret"), std::string::npos) << path;
  }
}

TEST_F(SliceShareTest, ReadsRangesAsTheStandardSays) {
  struct Case {
    const char* header;
    int64_t first, end;  // -1: 416
  };
  for (const Case& c : {Case{"bytes=0-0", 0, 1},
                        {"bytes=9-", 9, 10},
                        {"bytes=3-99", 3, 10},
                        {"bytes=-3", 7, 10},
                        {"bytes=-99", 0, 10},
                        {"bytes=10-", -1, 0},
                        {"bytes=-0", -1, 0},
                        {"", 0, 10},
                        {"bytes=", 0, 10},
                        {"bytes=-", 0, 10},
                        {"bytes=5-3", 0, 10},
                        {"bytes=1-2,4-5", 0, 10},
                        {"bytes=a-b", 0, 10},
                        {"bytes=--3", 0, 10},
                        {"items=1-2", 0, 10},
                        {"bytes=99999999999999999999-", 0, 10}}) {
    const auto range = ParseRange(c.header, 10);
    ASSERT_EQ(range.has_value(), c.first >= 0) << c.header;
    if (!range) continue;
    EXPECT_EQ(range->first, c.first) << c.header;
    EXPECT_EQ(range->end, c.end) << c.header;
  }
}

TEST_F(SliceShareTest, AChainAsksWhoKnowsThePath) {
  SharedSlices slices;
  slices.list = "{}";
  HandlerChain chain({std::make_shared<SliceShare>(std::move(slices)), share_});
  EXPECT_TRUE(chain.Check("GET", "/v1/slices/low/ffn.gguf").path_known);
  EXPECT_FALSE(chain.Check("GET", "/v1/slices/high/ffn.gguf").path_known);
  EXPECT_EQ(chain.RenderError("/", 404, "no").status, 404);
}

}  // namespace
}  // namespace pergola::gateway
