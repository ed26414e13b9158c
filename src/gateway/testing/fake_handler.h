// A handler whose routes behave well or badly on demand, for tests of the server.
//
//   GET  /get       {"path":...}: at once; /open: the same, without a key
//   POST /echo      the body, from another thread; /form the same with form content types allowed
//   any  /hold      not answered before Answer()
//   POST /block     likewise, and holds the thread until then; "may not block" if it may not
//   any  /may_block "yes" or "no"
//   GET  /large     3,000 bytes
//   GET  /stream    "start" and then 5 pieces of 1,000 bytes; /endless: pieces without end
//   GET  /drop      forgets the request; /twice answers twice
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/http_types.h"

namespace pergola::gateway::testing {

class FakeHandler : public HttpHandler {
 public:
  ~FakeHandler() override {
    for (std::thread& thread : threads_) thread.join();
  }

  RouteCheck Check(std::string_view method, std::string_view path) const override {
    RouteCheck check;
    const bool post = path == "/echo" || path == "/form" || path == "/block";
    const bool get = path == "/get" || path == "/open" || path == "/large" || path == "/stream" ||
                     path == "/endless" || path == "/drop" || path == "/twice" ||
                     path == "/metrics" || path == "/docs" || path == "/a/b";
    const bool any = path == "/hold" || path == "/may_block";
    check.path_known = post || get || any;
    check.allow = post ? "POST" : any ? "GET, HEAD, POST" : "GET, HEAD";
    check.method_allowed = ((post || any) && method == "POST") ||
                           ((get || any) && (method == "GET" || method == "HEAD"));
    check.needs_auth = path != "/open";
    check.takes_body = post || any;
    check.form_content_type_ok = path == "/form";
    check.route = path;
    return check;
  }

  HttpResponse RenderError(std::string_view path, int status,
                           std::string_view message) const override {
    HttpResponse response;
    response.status = status;
    response.body =
        "{\"error\":\"" + std::string(message) + "\",\"path\":\"" + std::string(path) + "\"}";
    return response;
  }

  void Handle(HttpRequest request, HttpRespond respond) override {
    const std::string path = request.path;
    HttpResponse response;
    response.headers.push_back({"x-query", request.query});
    response.body = "{\"path\":\"" + path + "\"}";
    if (path == "/hold") {
      const std::lock_guard lock(mutex_);
      held_.push_back({std::move(request), std::move(respond)});
      changed_.notify_all();
    } else if (path == "/block" && request.may_block) {
      std::unique_lock lock(mutex_);
      const size_t index = held_.size();
      held_.push_back({std::move(request), std::move(respond)});
      changed_.notify_all();
      changed_.wait(lock, [&] { return held_[index].answered; });
    } else if (path == "/block" || path == "/may_block") {
      response.body = path == "/block" ? "may not block" : request.may_block ? "yes" : "no";
      if (path == "/block") NoteRefused();
      respond(std::move(response));
    } else if (path == "/echo" || path == "/form") {
      response.body = std::move(request.body);
      const std::lock_guard lock(mutex_);
      threads_.emplace_back(
          [respond = std::move(respond), response = std::move(response)] { respond(response); });
    } else if (path == "/large") {
      response.body = "[" + std::string(2998, '1') + "]";
      respond(std::move(response));
    } else if (path == "/stream" || path == "/endless") {
      response.body = "start";
      response.next_chunk = [left = path == "/stream" ? 5 : -1](std::string* chunk) mutable {
        chunk->append(left < 0 ? 100'000 : 1000, 'x');
        return left < 0 || --left > 0;
      };
      respond(std::move(response));
    } else if (path == "/twice") {
      respond(response);
      response.body = "second";
      respond(std::move(response));
    } else if (path != "/drop") {
      respond(std::move(response));
    }
  }

  // Waits (at most 10 s) until `count` requests are held in all.
  bool WaitHeld(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return held_.size() >= count; });
  }
  // After each POST /block: the same, but false at once where it may not block.
  bool WaitBlocked(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10),
                      [&] { return held_.size() >= count || refused_; });
    return !std::exchange(refused_, false) && held_.size() >= count;
  }
  void Answer(size_t index, std::string body) {
    HttpResponse response;
    response.body = std::move(body);
    Held(index).respond(std::move(response));
    const std::lock_guard lock(mutex_);
    held_.at(index).answered = true;
    changed_.notify_all();
  }
  std::shared_ptr<service::CancelToken> cancel(size_t index) { return Held(index).request.cancel; }
  service::Clock::time_point deadline(size_t index) { return Held(index).request.deadline; }
  // Forgets all held requests, unanswered ones too.
  void Release() {
    std::vector<HeldRequest> held;
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }

 private:
  struct HeldRequest {
    HttpRequest request;
    HttpRespond respond;
    bool answered = false;
  };
  void NoteRefused() {
    const std::lock_guard lock(mutex_);
    refused_ = true;
    changed_.notify_all();
  }
  HeldRequest Held(size_t index) {
    const std::lock_guard lock(mutex_);
    return held_.at(index);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HeldRequest> held_;     // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_
  bool refused_ = false;              // a /block, since WaitBlocked(); guarded by mutex_
};

}  // namespace pergola::gateway::testing
