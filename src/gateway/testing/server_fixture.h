// A server with a FakeHandler on a free port, and what was logged of its requests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/testing/eventually.h"
#include "gateway/http_server.h"
#include "gateway/testing/fake_handler.h"
#include "gateway/testing/raw_client.h"

namespace pergola::gateway::testing {

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    options_.port = 0;
    options_.observer = [this](const RequestLog& log) {
      const std::lock_guard lock(mutex_);
      logs_.push_back(log);
      changed_.notify_all();
    };
    folder_ = std::filesystem::temp_directory_path() /
              ("pergola_http_" + std::to_string(::getpid()) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  ~ServerTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start() {
    auto server = HttpServer::Start(options_, handler_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  RawClient Connect() { return RawClient::Tcp(server_->port()); }
  RawAnswer Ask(std::string_view bytes) { return Connect().Ask(bytes); }

  // The log of the index-th request that was answered, waiting at most 10 s for it.
  RequestLog Logged(size_t index) {
    std::unique_lock lock(mutex_);
    const bool there =
        changed_.wait_for(lock, std::chrono::seconds(10), [&] { return logs_.size() > index; });
    return there ? logs_[index] : RequestLog{};
  }
  // Polls the server's counts: they change on its own threads.
  template <typename Condition>
  bool Eventually(Condition condition) {
    return pergola::Eventually([&] { return condition(server_->stats()); });
  }

  HttpServerOptions options_;
  std::shared_ptr<FakeHandler> handler_ = std::make_shared<FakeHandler>();
  std::unique_ptr<HttpServer> server_;
  std::filesystem::path folder_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RequestLog> logs_;  // guarded by mutex_
};

inline std::string Get(std::string_view target, std::string_view fields = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}
inline std::string Post(std::string_view target, std::string_view body,
                        std::string_view fields = "") {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(fields) + "\r\n" + std::string(body);
}

}  // namespace pergola::gateway::testing
