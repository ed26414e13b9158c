#include "scheduler/cached_service.h"

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/temp_folder.h"

namespace pergola::scheduler {
namespace {

using service::CancelToken;
using service::InferenceCallback;
using service::InferenceOutput;
using service::InferenceRequest;

// Keeps every request until the test answers it.
class HeldService : public service::InferenceService {
 public:
  void Submit(InferenceRequest request, InferenceCallback done) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    requests_.push_back({std::move(request), std::move(done)});
  }
  std::vector<service::ModelInfo> Models() const override {
    service::ModelInfo info;
    info.id = "m";
    return {info};
  }

  size_t count() const { return requests_.size(); }
  const InferenceRequest& request(size_t number) const { return requests_[number].first; }
  std::vector<std::vector<int32_t>> ids(size_t number) const {
    std::vector<std::vector<int32_t>> ids;
    for (const Sequence& sequence : request(number).sequences) ids.push_back(sequence.ids);
    return ids;
  }
  // A row per sequence: [first id, number of the request].
  void Answer(size_t number) {
    InferenceOutput output;
    for (const Sequence& sequence : request(number).sequences) {
      auto rows = std::make_shared<service::SequenceOutput>();
      (*rows)[OutputKind::kEmbedding] = {
          1, 2, {static_cast<float>(sequence.ids[0]), static_cast<float>(number)}};
      output.sequences.push_back(std::move(rows));
    }
    output.inference_time = std::chrono::nanoseconds(100);
    output.rows_identity = identity;
    output.promise = std::make_shared<int>(0);
    requests_[number].second(std::move(output));
  }
  void Fail(size_t number, Status status) { requests_[number].second(std::move(status)); }

  std::string identity = "one";  // of the answers

 private:
  std::mutex mutex_;
  std::vector<std::pair<InferenceRequest, InferenceCallback>> requests_;
};

class CachedServiceTest : public ::testing::Test {
 protected:
  struct Asked {
    std::shared_ptr<CancelToken> cancel = std::make_shared<CancelToken>();
    std::optional<Result<InferenceOutput>> answer;
  };
  using AskedPtr = std::shared_ptr<Asked>;

  CachedServiceTest() { cached_->SetIdentity("one"); }

  AskedPtr Ask(std::vector<int32_t> firsts,
               service::Priority priority = service::Priority::kOnline) {
    InferenceRequest request;
    for (const int32_t first : firsts) request.sequences.push_back({.ids = {first, 7}});
    request.priority = priority;
    auto asked = std::make_shared<Asked>();
    request.cancel = asked->cancel;
    cached_->Submit(std::move(request), [asked](Result<InferenceOutput> output) {
      EXPECT_FALSE(asked->answer.has_value()) << "answered twice";
      asked->answer = std::move(output);
    });
    return asked;
  }
  // [first id, number of the request that computed it] of each sequence.
  static std::vector<std::vector<float>> RowsOf(const AskedPtr& asked) {
    std::vector<std::vector<float>> rows;
    if (!asked->answer || !asked->answer->ok()) return rows;
    for (const auto& output : asked->answer->value().sequences) {
      rows.push_back((*output)[OutputKind::kEmbedding].values);
    }
    return rows;
  }
  static StatusCode CodeOf(const AskedPtr& asked) {
    return asked->answer ? asked->answer->status().code() : StatusCode::kUnknown;
  }
  double Metric(const std::string& name) const {
    for (const auto& sample : cached_->Metrics()) {
      if (sample.name == name) return sample.value;
    }
    return -1;
  }

  std::shared_ptr<HeldService> held_ = std::make_shared<HeldService>();
  std::unique_ptr<CachedService> cached_ =
      std::make_unique<CachedService>(held_, CachedService::Options{});
};

using Floats = std::vector<std::vector<float>>;

TEST_F(CachedServiceTest, OnlyWhatIsNotThereIsAskedForAndTheOrderStays) {
  const AskedPtr first = Ask({1, 2});
  held_->Answer(0);
  EXPECT_EQ(RowsOf(first), (Floats{{1, 0}, {2, 0}}));
  const AskedPtr second = Ask({3, 2, 4, 1});
  ASSERT_EQ(held_->count(), 2u);
  EXPECT_EQ(held_->ids(1), (std::vector<std::vector<int32_t>>{{3, 7}, {4, 7}}));
  held_->Answer(1);
  EXPECT_EQ(RowsOf(second), (Floats{{3, 1}, {2, 0}, {4, 1}, {1, 0}}));
  EXPECT_EQ(second->answer->value().cache_hits, 2);
  const AskedPtr third = Ask({4, 4, 1});
  EXPECT_EQ(RowsOf(third), (Floats{{4, 1}, {4, 1}, {1, 0}}));
  EXPECT_EQ(held_->count(), 2u);
  EXPECT_EQ(Metric("pergola_cache_hits_total"), 5);
  EXPECT_EQ(Metric("pergola_cache_entries"), 4);
}

TEST_F(CachedServiceTest, EqualSequencesUnderWayAreAskedForOnce) {
  const AskedPtr first = Ask({1, 2, 1});
  const AskedPtr second = Ask({2, 3});
  const AskedPtr third = Ask({1});
  ASSERT_EQ(held_->count(), 2u);
  EXPECT_EQ(held_->ids(0).size(), 2u) << "the same twice in one request too";
  EXPECT_EQ(held_->ids(1), (std::vector<std::vector<int32_t>>{{3, 7}}));
  held_->Answer(1);
  EXPECT_FALSE(second->answer.has_value());
  held_->Answer(0);
  EXPECT_EQ(RowsOf(first), (Floats{{1, 0}, {2, 0}, {1, 0}}));
  EXPECT_EQ(RowsOf(second), (Floats{{2, 0}, {3, 1}}));
  EXPECT_EQ(RowsOf(third), (Floats{{1, 0}}));
  EXPECT_NE(second->answer->value().promise, nullptr);
  EXPECT_GT(second->answer->value().inference_time.count(), 0);
  EXPECT_EQ(Metric("pergola_joined_total"), 3);
}

TEST_F(CachedServiceTest, WhatComputesForNobodyIsCancelledAndNothingElse) {
  const AskedPtr first = Ask({1});
  const AskedPtr second = Ask({1});
  first->cancel->Cancel();
  EXPECT_EQ(CodeOf(first), StatusCode::kCancelled) << "the work is the second's now";
  EXPECT_FALSE(held_->request(0).cancel->cancelled());
  second->cancel->Cancel();
  EXPECT_TRUE(held_->request(0).cancel->cancelled());
  EXPECT_FALSE(second->answer.has_value()) << "as long as there is work for it";
  const AskedPtr third = Ask({1});
  EXPECT_EQ(held_->count(), 2u) << "nobody joins what is cancelled";
  held_->Fail(0, CancelledError("nobody waits"));
  EXPECT_EQ(CodeOf(second), StatusCode::kCancelled);
  held_->Answer(1);
  EXPECT_EQ(RowsOf(third), (Floats{{1, 1}}));
  EXPECT_EQ(first->cancel.use_count(), 1) << "nothing is left that listens";
}

TEST_F(CachedServiceTest, ARequestsOwnFailureIsNotThatOfThoseWhoJoined) {
  for (const Status& status : {DeadlineExceededError("late"), ResourceExhaustedError("too long"),
                               InvalidArgumentError("sequence 1")}) {
    const size_t number = held_->count();
    const AskedPtr first = Ask({1, 2});
    const AskedPtr second = Ask({1, 3});
    held_->Fail(number, status);
    EXPECT_EQ(CodeOf(first), status.code());
    ASSERT_EQ(held_->count(), number + 3);
    EXPECT_EQ(held_->ids(number + 2), (std::vector<std::vector<int32_t>>{{1, 7}}));
    held_->Fail(number + 2, UnavailableError("gone"));
    EXPECT_EQ(CodeOf(second), StatusCode::kUnavailable);
    held_->Fail(number + 1, UnavailableError("gone"));
  }
  const size_t number = held_->count();
  const AskedPtr first = Ask({1});
  const AskedPtr second = Ask({1});
  held_->Fail(number, UnavailableError("gone"));
  EXPECT_EQ(CodeOf(first), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(second), StatusCode::kUnavailable) << "no storm of those who joined";
  EXPECT_EQ(held_->count(), number + 1);
  EXPECT_EQ(Metric("pergola_cache_entries"), 0);
}

TEST_F(CachedServiceTest, SomebodyWhoWaitsDoesNotJoinWhatGoesBehind) {
  const AskedPtr bulk = Ask({1}, service::Priority::kBulk);
  const AskedPtr online = Ask({1});
  const AskedPtr late = Ask({1}, service::Priority::kBulk);
  ASSERT_EQ(held_->count(), 2u);
  held_->Answer(1);
  EXPECT_EQ(RowsOf(online), (Floats{{1, 1}}));
  EXPECT_EQ(RowsOf(late), (Floats{{1, 1}}));
  held_->Answer(0);
  EXPECT_EQ(RowsOf(bulk), (Floats{{1, 0}}));
}

TEST_F(CachedServiceTest, AnotherIdentityForgetsAlsoWhatIsUnderWay) {
  Ask({1});
  held_->Answer(0);
  const AskedPtr old = Ask({2});
  cached_->SetIdentity("two");
  EXPECT_EQ(Metric("pergola_cache_entries"), 0);
  const AskedPtr fresh = Ask({2});
  ASSERT_EQ(held_->count(), 3u) << "not joined: it may come from the other weights";
  held_->Answer(1);
  EXPECT_EQ(RowsOf(old), (Floats{{2, 1}}));
  EXPECT_EQ(Metric("pergola_cache_entries"), 0);
  held_->identity = "two";
  held_->Answer(2);
  EXPECT_EQ(RowsOf(fresh), (Floats{{2, 2}}));
  EXPECT_EQ(Metric("pergola_cache_entries"), 1);
  cached_->SetIdentity("two");
  EXPECT_EQ(Metric("pergola_cache_entries"), 1) << "the same as before";
  cached_->SetIdentity("");
  Ask({2});
  held_->Answer(3);
  EXPECT_EQ(Metric("pergola_cache_entries"), 0);
}

TEST_F(CachedServiceTest, WhatAnotherIdentityComputedIsPassedOnAndNotKept) {
  const TempFolder folder;
  CachedService::Options options;
  options.cache_file = (folder.path() / "rows").string();
  cached_ = std::make_unique<CachedService>(held_, options);
  cached_->SetIdentity("one");
  for (const std::string identity : {"two", "", service::kMixedIdentity}) {
    held_->identity = identity;
    const AskedPtr asked = Ask({1});
    held_->Answer(held_->count() - 1);
    EXPECT_EQ(RowsOf(asked).size(), 1u);
    EXPECT_EQ(Metric("pergola_cache_entries"), 0) << identity;
  }
  cached_ = std::make_unique<CachedService>(held_, options);
  cached_->SetIdentity("one");
  EXPECT_EQ(Metric("pergola_cache_entries"), 0) << "nor in the file";
}

TEST_F(CachedServiceTest, AnswersTellWhoComputedThem) {
  const auto identity_of = [](const AskedPtr& asked) {
    return asked->answer->value().rows_identity;
  };
  const AskedPtr computed = Ask({1});
  held_->Answer(0);
  EXPECT_EQ(identity_of(computed), "one");
  EXPECT_EQ(identity_of(Ask({1})), "one") << "kept";
  held_->identity = "two";
  const AskedPtr both = Ask({1, 2});
  held_->Answer(1);
  EXPECT_EQ(identity_of(both), service::kMixedIdentity);
}

TEST_F(CachedServiceTest, AFileKeepsOutputsOverRestartsUnderTheSameIdentityOnly) {
  const TempFolder folder;
  CachedService::Options options;
  options.cache_file = (folder.path() / "rows").string();
  std::vector<std::string> told;
  options.tell = [&told](const std::string& line) { told.push_back(line); };
  cached_ = std::make_unique<CachedService>(held_, options);
  cached_->SetIdentity("one");
  const AskedPtr first = Ask({1, 2});
  held_->Answer(0);
  const auto rows = RowsOf(first);
  ASSERT_EQ(rows.size(), 2u);
  cached_ = std::make_unique<CachedService>(held_, options);  // the one before writes and ends
  const AskedPtr early = Ask({1});
  EXPECT_FALSE(early->answer) << "before the identity is known nothing is answered";
  held_->Answer(1);
  cached_->SetIdentity("one");
  EXPECT_EQ(RowsOf(Ask({2, 1})), (Floats{rows[1], rows[0]}));
  cached_->SetIdentity("");  // the servers differ: the file rests
  cached_->SetIdentity("one");
  EXPECT_EQ(RowsOf(Ask({1, 2})), rows);
  EXPECT_TRUE(told.empty());
  cached_->SetIdentity("two");
  EXPECT_EQ(told.size(), 1u) << "begun anew";
  const AskedPtr anew = Ask({1, 2});
  EXPECT_FALSE(anew->answer);
  held_->Answer(2);
}

TEST_F(CachedServiceTest, AFileThatCannotBeOpenedIsToldOfAndDoneWithout) {
  const TempFolder folder;
  CachedService::Options options;
  options.cache_file = (folder.path() / "missing" / "rows").string();
  std::vector<std::string> told;
  options.tell = [&told](const std::string& line) { told.push_back(line); };
  cached_ = std::make_unique<CachedService>(held_, options);
  cached_->SetIdentity("one");
  EXPECT_EQ(told.size(), 1u);
  const AskedPtr asked = Ask({1});
  held_->Answer(0);
  EXPECT_EQ(RowsOf(Ask({1})), RowsOf(asked));
  EXPECT_EQ(Metric("pergola_cache_file_writable"), 0);
}

TEST_F(CachedServiceTest, AnotherModelIsNotAnsweredFromHere) {
  Ask({1});
  held_->Answer(0);
  InferenceRequest request;
  request.model = "other";
  request.sequences = {{.ids = {1, 7}}};
  Status status;
  cached_->Submit(request, [&](Result<InferenceOutput> output) { status = output.status(); });
  ASSERT_EQ(held_->count(), 2u);
  held_->Fail(1, NotFoundError("other"));
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
}

TEST_F(CachedServiceTest, TheEndCancelsWhatIsOpenAndWaitsForIt) {
  const AskedPtr asked = Ask({1});
  auto ended = std::async(std::launch::async, [this] { cached_.reset(); });
  std::promise<void> cancelled;
  held_->request(0).cancel->Listen([&] { cancelled.set_value(); });
  cancelled.get_future().wait();
  EXPECT_FALSE(asked->answer.has_value());
  held_->Fail(0, CancelledError("the end"));
  ended.wait();
  EXPECT_EQ(CodeOf(asked), StatusCode::kCancelled);
}

}  // namespace
}  // namespace pergola::scheduler
