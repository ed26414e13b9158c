#include "hub/hub_upload.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/testing/temp_folder.h"
#include "hub/digest.h"
#include "hub/testing/fake_server.h"

namespace pergola::hub {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;
using testing::FakeAnswer;
using testing::FakeRequest;
using testing::FakeServer;

constexpr char kRepository[] = "someone/gemma-ffn";
constexpr char kAuthorization[] = "Authorization: Bearer hf_write";

std::string Unbase64(std::string_view text) {
  static const std::string kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 255);
    }
  }
  return bytes;
}

std::string Text(element root, std::string_view key) {
  std::string_view text;
  return root[key].get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

std::vector<element> List(element root, std::string_view key) {
  simdjson::dom::array array;
  if (root[key].get(array) != simdjson::SUCCESS) return {};
  return {array.begin(), array.end()};
}

// A hub: repositories, large files by checksum, and storage on another port.
class FakeHub {
 public:
  FakeHub()
      : storage_([this](const FakeRequest& request) { return Store(request); }),
        hub_([this](const FakeRequest& request) { return Answer(request); }) {}

  std::string url() const { return hub_.url(); }

  // What clients did; read when they have answers.
  std::map<std::string, std::string> files;  // committed
  std::map<std::string, std::string> objects;
  std::vector<std::string> log;
  std::set<std::string> modes_of_large = {"ffn.gguf"};
  bool exists = false;
  int commits = 0;
  int verified = 0;
  int puts = 0;
  int64_t chunk = 0;             // > 0: in parts of so many bytes
  int refuse_puts_from = 1000;   // 503 from that one on
  int refuse_puts_until = 1000;  // and no more from that one on
  std::string refusal_headers;   // of these answers
  bool storage_saw_token = false;
  std::string action_header;    // members of the "header" of each action, a comma behind each
  std::string expected_header;  // of every request that an action names
  int without_header = 0;       // requests that lack it

 private:
  FakeAnswer Store(const FakeRequest& request) {
    storage_saw_token |= request.has("hf_write");
    without_header += request.has(expected_header) ? 0 : 1;
    if (request.method == "POST") {  // the parts of one object, by their ETags
      element root = parser_.parse(request.body);
      std::string whole;
      for (const element part : List(root, "parts")) {
        whole += parts_[Text(part, "etag")];
      }
      objects[Text(root, "oid")] = whole;
      return {};
    }
    if (++puts >= refuse_puts_from && puts < refuse_puts_until) {
      return {503, "busy", refusal_headers};
    }
    const std::string name = request.path.substr(1);
    if (chunk > 0) {
      const std::string etag = "\"" + Sha256(request.body).substr(0, 8) + "\"";
      parts_[etag] = request.body;
      return {200, "", "ETag: " + etag + "\r\n"};
    }
    objects[name] = request.body;
    return {};
  }

  FakeAnswer Answer(const FakeRequest& request) {
    log.push_back(request.method + " " + request.path);
    if (request.path == "/verify") return Verify(request);
    if (!request.has(kAuthorization)) return {401, "no token"};
    const std::string api = std::string("/api/models/") + kRepository;
    if (request.path == "/api/repos/create") {
      if (std::exchange(exists, true)) return {409, "it is there"};
      return {200, "{}"};
    }
    if (request.path == api + "/tree/main?recursive=true") return Tree();
    if (request.path == api + "/preupload/main") return Modes(request);
    if (request.path == std::string("/") + kRepository + ".git/info/lfs/objects/batch") {
      return Batch(request);
    }
    if (request.path == api + "/commit/main") return Commit(request);
    return {404, "no such route"};
  }

  FakeAnswer Verify(const FakeRequest& request) {
    without_header += request.has(expected_header) ? 0 : 1;
    element root = parser_.parse(request.body);
    const std::string& bytes = objects[Text(root, "oid")];
    ++verified;
    return {Sha256(bytes) == Text(root, "oid") ? 200 : 400, ""};
  }

  FakeAnswer Tree() const {
    if (files.empty()) return {404, "no such revision"};
    std::string body;
    for (const auto& [path, bytes] : files) {
      body += (body.empty() ? "[" : ",");
      body += "{\"type\":\"file\",\"path\":\"" + path +
              "\",\"size\":" + std::to_string(bytes.size()) + ",\"oid\":\"" + GitBlobSha1(bytes) +
              "\"";
      if (modes_of_large.contains(path)) {
        body += ",\"lfs\":{\"oid\":\"" + Sha256(bytes) + "\"}";
      }
      body += "}";
    }
    return {200, body + "]"};
  }

  FakeAnswer Modes(const FakeRequest& request) {
    std::string body;
    element root = parser_.parse(request.body);
    for (const element file : List(root, "files")) {
      const std::string path = Text(file, "path");
      EXPECT_FALSE(Text(file, "sample").empty());
      body += (body.empty() ? "" : ",");
      body += "{\"path\":\"" + path + "\",\"uploadMode\":\"" +
              (modes_of_large.contains(path) ? "lfs" : "regular") + "\"}";
    }
    return {200, "{\"files\":[" + body + "]}"};
  }

  FakeAnswer Batch(const FakeRequest& request) {
    EXPECT_TRUE(request.has("Content-Type: application/vnd.git-lfs+json"));
    element root = parser_.parse(request.body);
    std::string body;
    for (const element object : List(root, "objects")) {
      const std::string oid = Text(object, "oid");
      body += (body.empty() ? "" : ",");
      body += "{\"oid\":\"" + oid + "\"";
      if (!objects.contains(oid)) {
        body += ",\"actions\":{\"upload\":{\"href\":\"" + storage_.url() + "/" + oid + "\"";
        if (chunk == 0) body += ",\"header\":{" + action_header + "\"accept\":\"a/b\"}";
        if (chunk > 0) {
          const int64_t bytes = object["size"].get_int64().value();
          body +=
              ",\"header\":{" + action_header + "\"chunk_size\":\"" + std::to_string(chunk) + "\"";
          for (int64_t part = 1; (part - 1) * chunk < bytes; ++part) {
            body += ",\"0000" + std::to_string(part) + "\":\"" + storage_.url() +
                    "/part?n=" + std::to_string(part) + "\"";
          }
          body += "}";
        }
        body += "},\"verify\":{\"href\":\"" + hub_.url() + "/verify\",\"header\":{" +
                action_header + "\"accept\":\"a/b\"}}}";
      }
      body += "}";
    }
    return {200, "{\"objects\":[" + body + "]}"};
  }

  FakeAnswer Commit(const FakeRequest& request) {
    ++commits;
    for (size_t at = 0; at < request.body.size();) {
      const size_t end = request.body.find('\n', at);
      element line = parser_.parse(request.body.substr(at, end - at));
      at = end + 1;
      const std::string key = Text(line, "key");
      const element value = line["value"];
      if (key == "file") files[Text(value, "path")] = Unbase64(Text(value, "content"));
      if (key == "lfsFile") files[Text(value, "path")] = objects.at(Text(value, "oid"));
    }
    return {200, "{}"};
  }

  simdjson::dom::parser parser_;
  std::map<std::string, std::string> parts_;
  FakeServer storage_;
  FakeServer hub_;
};

class HubUploadTest : public ::testing::Test {
 protected:
  HubUploadTest() {
    config_.endpoint = hub_.url();
    config_.token = "hf_write";
    options_.retry.sleep = [this](std::chrono::milliseconds pause) {
      pauses_.push_back(pause.count());
    };
    options_.retry.uniform = [] { return 1.0; };
    for (int i = 0; i < 3000; ++i) weights_ += static_cast<char>(i * 7);
    Write("ffn.gguf", weights_);
    Write("index.json", "{}");
  }

  void Write(const std::string& name, const std::string& bytes) {
    (void)folder_.Write(name, bytes);
  }
  Result<UploadOutcome> Upload() {
    const std::vector<UploadFile> files = {{"README.md", {}, card_},
                                           {"index.json", folder_.path() / "index.json"},
                                           {"ffn.gguf", folder_.path() / "ffn.gguf"}};
    return UploadFiles(config_, kRepository, files, options_);
  }
  void ExpectAllThere() {
    EXPECT_EQ(hub_.files.size(), 3u);
    EXPECT_EQ(hub_.files["ffn.gguf"], weights_);
    EXPECT_EQ(hub_.files["index.json"], "{}");
    EXPECT_EQ(hub_.files["README.md"], card_);
  }

  TempFolder folder_;
  std::string weights_;
  std::string card_ = "# Layers\n";
  FakeHub hub_;
  HubConfig config_;
  UploadOptions options_;
  std::vector<int64_t> pauses_;  // ms
};

TEST_F(HubUploadTest, OneCommitHasAllFilesAndTheTokenStaysWithTheHub) {
  const auto done = Upload();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(done->uploaded_bytes, 3000 + 2 + 9);
  EXPECT_EQ(done->unchanged_bytes, 0);
  ExpectAllThere();
  EXPECT_EQ(hub_.commits, 1);
  EXPECT_EQ(hub_.verified, 1);
  EXPECT_FALSE(hub_.storage_saw_token);
}

TEST_F(HubUploadTest, WhatIsThereIsNotSentAgain) {
  ASSERT_TRUE(Upload().ok());
  auto done = Upload();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(done->uploaded_bytes, 0);
  EXPECT_EQ(done->unchanged_bytes, 3000 + 2 + 9);
  EXPECT_EQ(hub_.commits, 1);
  card_ = "# Other layers\n";
  done = Upload();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(done->uploaded_bytes, 15);
  EXPECT_EQ(hub_.puts, 1);
  EXPECT_EQ(hub_.commits, 2);
  ExpectAllThere();
}

TEST_F(HubUploadTest, LargeFilesGoInPartsWhereTheHubWantsThem) {
  hub_.chunk = 1000;
  weights_ += "and a rest";
  Write("ffn.gguf", weights_);
  const auto done = Upload();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(hub_.puts, 4);
  EXPECT_FALSE(hub_.storage_saw_token);
  ExpectAllThere();
}

TEST_F(HubUploadTest, AnInterruptedRunIsContinuedAndCommitsNothingBefore) {
  hub_.modes_of_large.insert("index.json");
  hub_.refuse_puts_from = 2;  // one of the two gets through
  const auto cut = Upload();
  EXPECT_EQ(cut.status().code(), StatusCode::kUnavailable) << cut.status().ToString();
  EXPECT_EQ(hub_.commits, 0);
  EXPECT_EQ(hub_.puts, 1 + 3);  // three tries
  EXPECT_EQ(pauses_, (std::vector<int64_t>{1000, 2000}));
  EXPECT_EQ(hub_.objects.size(), 1u);
  hub_.refuse_puts_from = 1000;
  const auto done = Upload();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(hub_.puts, 4 + 1);
  EXPECT_EQ(done->uploaded_bytes + done->unchanged_bytes, 3000 + 2 + 9);
  EXPECT_GT(done->unchanged_bytes, 0);
  ExpectAllThere();
}

TEST_F(HubUploadTest, ABusyServerIsAskedAgainWhenItSays) {
  hub_.refuse_puts_from = 1;
  hub_.refuse_puts_until = 3;
  hub_.refusal_headers = "Retry-After: 17\r\n";
  const auto done = Upload();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(pauses_, (std::vector<int64_t>{17'000, 17'000}));
  ExpectAllThere();
}

TEST_F(HubUploadTest, AServerThatWantsToRestForLongIsNotWaitedFor) {
  hub_.refuse_puts_from = 1;
  hub_.refusal_headers = "Retry-After: 86400\r\n";
  EXPECT_EQ(Upload().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(hub_.puts, 1);
  EXPECT_TRUE(pauses_.empty());
}

TEST_F(HubUploadTest, AServerThatIsNotThereIsAskedAgainToo) {
  config_.endpoint = "http://127.0.0.1:1";
  options_.retry.tries = 4;
  EXPECT_EQ(Upload().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(pauses_, (std::vector<int64_t>{1000, 2000, 4000}));
}

TEST_F(HubUploadTest, HeadersThatTheHubNamesGoWithWhatTheyAreFor) {
  hub_.action_header =
      R"("x-amz-meta-oid":"a b","Authorization":"Basic c3Q=","Content-Length":"1",)";
  hub_.expected_header = "x-amz-meta-oid: a b\r\nAuthorization: Basic c3Q=\r\n";
  for (const int64_t chunk : {0, 1000}) {
    hub_.chunk = chunk;
    weights_ += 'x';
    Write("ffn.gguf", weights_);
    const auto done = Upload();
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    ExpectAllThere();
  }
  EXPECT_EQ(hub_.puts, 1 + 4);
  EXPECT_EQ(hub_.verified, 2);
  EXPECT_EQ(hub_.without_header, 0);
  EXPECT_FALSE(hub_.storage_saw_token);
}

TEST_F(HubUploadTest, AHeaderWithoutAValueGoesAlongToo) {
  hub_.action_header = R"("x-amz-meta-note":"","Authorization":"",)";
  for (const char* header : {"x-amz-meta-note:\r\n", "Authorization:\r\n"}) {
    hub_.expected_header = header;
    weights_ += 'x';
    Write("ffn.gguf", weights_);
    const auto done = Upload();
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_EQ(hub_.without_header, 0) << header;
  }
  EXPECT_EQ(hub_.verified, 2);
}

TEST_F(HubUploadTest, AHeaderThatIsNoneIsAnError) {
  for (const char* header :
       {R"("a\r\nb":"c",)", R"("a":"b\r\nHost: c",)", R"("a b":"c",)", R"("a:":"c",)"}) {
    hub_.action_header = header;
    EXPECT_EQ(Upload().status().code(), StatusCode::kDataLoss) << header;
  }
  EXPECT_EQ(hub_.puts, 0);
  EXPECT_EQ(hub_.commits, 0);
}

TEST_F(HubUploadTest, RefusalsAreToldAsTheyAre) {
  config_.token = "hf_read";
  EXPECT_EQ(Upload().status().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(hub_.commits, 0);
  config_.token = "";
  EXPECT_EQ(Upload().status().code(), StatusCode::kUnauthenticated);
  config_.token = "hf_write";
  config_.offline = true;
  EXPECT_EQ(Upload().status().code(), StatusCode::kFailedPrecondition);
  config_.offline = false;
  EXPECT_EQ(UploadFiles(config_, "name", {}, {}).status().code(), StatusCode::kInvalidArgument);
  fs::remove(folder_.path() / "ffn.gguf");
  EXPECT_EQ(Upload().status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace pergola::hub
