#include "scheduler/scheduler.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "core/finite.h"

namespace pergola::scheduler {
namespace {

using service::Clock;
using service::InferenceOutput;
using service::SequenceOutput;

std::string Number(int64_t value) { return std::to_string(value); }

// The message goes on after "sequence 7".
Status CheckSequence(const Sequence& sequence, const service::ModelInfo& info) {
  if (sequence.ids.empty()) return InvalidArgumentError(" has no tokens");
  if (sequence.tokens() > info.max_tokens) {
    return InvalidArgumentError(" has " + Number(sequence.tokens()) + " tokens, the limit is " +
                                Number(info.max_tokens));
  }
  for (const int32_t id : sequence.ids) {
    if (id < 0 || id >= info.vocab_size) {
      return InvalidArgumentError(": token id " + Number(id) + " is outside the vocabulary of " +
                                  Number(info.vocab_size));
    }
  }
  if (sequence.second_text < 0 || sequence.second_text > sequence.tokens()) {
    return InvalidArgumentError(": the second text begins at " + Number(sequence.second_text) +
                                ", outside its " + Number(sequence.tokens()) + " tokens");
  }
  int32_t end = 0;
  for (const TokenSpan& span : sequence.spans) {
    if (span.begin < end || span.end <= span.begin || span.end > sequence.tokens()) {
      return InvalidArgumentError(": the span of tokens " + Number(span.begin) + " to " +
                                  Number(span.end) + " is empty, out of order or outside its " +
                                  Number(sequence.tokens()) + " tokens");
    }
    end = span.end;
  }
  return OkStatus();
}

}  // namespace

// State of one request; guarded by the scheduler's mutex until it is finished.
struct Scheduler::Request {
  service::InferenceCallback done;
  Clock::time_point submitted;
  Clock::time_point deadline;
  std::shared_ptr<service::CancelToken> cancel;
  OutputSet outputs;
  service::Priority priority = service::Priority::kOnline;
  std::string tenant;
  size_t open = 0;  // sequences not yet answered
  bool finished = false;
  Status status;
  InferenceOutput output;
};

// One computation that waits or runs, and everybody who waits for it.
struct Scheduler::Work {
  SequenceKey key;
  service::Priority priority;
  Clock::time_point arrived;
  FairOrder::Turn turn = 0;
  std::vector<Waiter> waiters;
  bool running = false;
  int64_t tokens() const { return key.sequence.tokens(); }
};

Scheduler::Scheduler(service::ModelInfo info, std::unique_ptr<engine::Runner> runner,
                     const SchedulerOptions& options)
    : info_(std::move(info)),
      runner_(std::move(runner)),
      options_(options),
      cache_(options.cache_bytes),
      promised_(options.max_promised_bytes) {
  if (options_.batching.step_tokens <= 0) options_.batching.step_tokens = runner_->step_tokens();
  engine_thread_ = std::thread([this] { EngineLoop(); });
}

Scheduler::~Scheduler() {
  Finished finished;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    accepting_ = false;
    stopping_ = true;
    FailQueue(UnavailableError("the server is shutting down"), &finished);
  }
  engine_wanted_.notify_all();
  CallBack(finished);
  runner_->Wake();
  engine_thread_.join();
  std::unique_lock<std::mutex> lock(mutex_);
  blocking_done_.wait(lock, [this] { return blocking_callers_ == 0; });
}

void Scheduler::KeepResultsIn(std::unique_ptr<ResultFile> file) {
  const std::lock_guard<std::mutex> lock(mutex_);
  result_file_ = std::move(file);
}

void Scheduler::Remember(const SequenceKey& key, StoredOutput output) {
  const std::lock_guard<std::mutex> lock(mutex_);
  cache_.Put(key, std::move(output));
}

void Scheduler::StopAccepting() {
  const std::lock_guard<std::mutex> lock(mutex_);
  accepting_ = false;
}

Status Scheduler::Validate(const service::InferenceRequest& request) const {
  if (!request.model.empty() && request.model != info_.id) {
    return NotFoundError("model '" + request.model + "' is not served here");
  }
  for (const OutputKind kind : kOutputKinds) {
    if (request.outputs.Has(kind) && !info_.has(kind)) {
      return InvalidArgumentError("the model '" + info_.id + "' gives no " +
                                  std::string(OutputKindName(kind)));
    }
  }
  for (size_t index = 0; index < request.sequences.size(); ++index) {
    const Status status = CheckSequence(request.sequences[index], info_);
    if (!status.ok()) {
      return InvalidArgumentError("sequence " + std::to_string(index) + status.message());
    }
  }
  return OkStatus();
}

Status Scheduler::Admit(int64_t tokens) const {
  if (!accepting_) return UnavailableError("the server is shutting down");
  if (queued_tokens_ > 0 && queued_tokens_ + tokens > options_.max_queued_tokens) {
    return ResourceExhaustedError(Number(queued_tokens_) + " tokens are queued, " + Number(tokens) +
                                  " more exceed the limit of " +
                                  Number(options_.max_queued_tokens));
  }
  return OkStatus();
}

std::unique_lock<std::mutex> Scheduler::Enqueue(service::InferenceRequest request,
                                                service::InferenceCallback done,
                                                Finished* finished) {
  auto state = std::make_shared<Request>();
  state->done = std::move(done);
  state->submitted = Clock::now();
  state->deadline = request.deadline;
  state->cancel = std::move(request.cancel);
  state->outputs = request.outputs;
  state->priority = request.priority;
  state->tenant = std::move(request.tenant);
  int64_t tokens = 0;
  for (const Sequence& sequence : request.sequences) tokens += sequence.tokens();
  Status status = Validate(request);

  std::unique_lock<std::mutex> lock(mutex_);
  if (status.ok()) {
    Result<std::shared_ptr<const void>> promise =
        promised_.Take(service::AnswerBytes(info_, request.outputs, request.sequences));
    status = promise.status();
    if (promise.ok()) state->output.promise = std::move(*promise);
  }
  if (status.ok()) status = Admit(tokens);
  if (!status.ok()) {
    if (status.code() == StatusCode::kResourceExhausted) ++refused_;
    Fail(state, std::move(status), finished);
    return lock;
  }
  state->open = request.sequences.size();
  state->output.sequences.resize(request.sequences.size());
  state->output.rows_identity = info_.rows_identity;
  for (size_t index = 0; index < request.sequences.size(); ++index) {
    EnqueueSequence(state, index, std::move(request.sequences[index]));
  }
  if (state->open == 0) {
    FinishRequest(state, finished);
  } else if (GivesUpAt(*state) < ready_until_) {
    runner_->Wake();
  }
  return lock;
}

void Scheduler::EnqueueSequence(const std::shared_ptr<Request>& request, size_t index,
                                Sequence sequence) {
  SequenceKey key{request->outputs, std::move(sequence)};
  if (OutputPtr output = cache_.Get(key)) {
    ++cache_hits_;
    ++request->output.cache_hits;
    request->output.sequences[index] = std::move(output);
    --request->open;
    return;
  }
  ++cache_misses_;
  if (options_.single_flight) {
    const auto found = in_flight_.find(key);
    if (found != in_flight_.end()) {
      ++joined_;
      Work& work = *found->second;
      work.waiters.push_back({request, index});
      if (request->priority == service::Priority::kOnline) work.priority = request->priority;
      return;
    }
  }
  auto work = std::make_shared<Work>();
  work->key = std::move(key);
  work->priority = request->priority;
  work->arrived = request->submitted;
  work->waiters.push_back({request, index});
  queued_tokens_ += work->tokens();
  if (options_.single_flight) in_flight_.emplace(work->key, work);
  work->turn = fair_order_.Enter(request->tenant, work->tokens());
  const auto place = std::upper_bound(
      queue_.begin(), queue_.end(), work->turn,
      [](FairOrder::Turn turn, const WorkPtr& waiting) { return turn < waiting->turn; });
  queue_.insert(place, std::move(work));
}

void Scheduler::Submit(service::InferenceRequest request, service::InferenceCallback done) {
  const bool may_block = request.may_block;
  Finished finished;
  std::unique_lock<std::mutex> lock = Enqueue(std::move(request), std::move(done), &finished);
  bool wake = false;
  // Whoever holds the engine looks again.
  if (!queue_.empty() && !engine_busy_) {
    const bool at_once = CollectUntilNow() <= Clock::now();
    wake = at_once || !collecting_;
    if (at_once && !collecting_ && may_block && finished.empty()) {
      ++blocking_callers_;
      finished = RunOneBatch(lock);
      --blocking_callers_;
      blocking_done_.notify_all();
      if (!queue_.empty()) engine_wanted_.notify_one();
      wake = false;
    }
  }
  lock.unlock();
  if (wake) engine_wanted_.notify_one();
  CallBack(finished);  // last: whoever is called back may be the one who ends this
}

Clock::time_point Scheduler::CollectUntilNow() const {
  WaitingSum waiting{queue_.size(), queued_tokens_, Clock::time_point::max()};
  if (!options_.batching.adaptive_wait) {
    for (const WorkPtr& work : queue_) waiting.oldest = std::min(waiting.oldest, work->arrived);
  }
  return CollectUntil(waiting, last_step_, options_.batching);
}

Result<InferenceOutput> Scheduler::RunBlocking(service::InferenceRequest request) {
  Result<InferenceOutput> answer = InternalError("not answered");
  bool answered = false;
  Finished finished;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++blocking_callers_;
  }
  std::unique_lock<std::mutex> lock = Enqueue(
      std::move(request),
      [&](Result<InferenceOutput> output) {
        const std::lock_guard<std::mutex> answering(mutex_);
        answer = std::move(output);
        answered = true;
        blocking_done_.notify_all();
      },
      &finished);
  if (!finished.empty()) {
    lock.unlock();
    CallBack(finished);
    lock.lock();
  }
  while (!answered) {
    if (!engine_busy_ && !queue_.empty()) {
      RunAndCallBack(lock);
    } else {
      blocking_done_.wait(lock);
    }
  }
  --blocking_callers_;
  blocking_done_.notify_all();
  if (!queue_.empty()) engine_wanted_.notify_one();
  return answer;
}

void Scheduler::EngineLoop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    engine_wanted_.wait(lock, [this] { return stopping_ || (!queue_.empty() && !engine_busy_); });
    if (queue_.empty() && stopping_) return;
    if (const Clock::time_point until = CollectUntilNow(); until > Clock::now() && !stopping_) {
      collecting_ = true;
      engine_wanted_.wait_until(lock, until);
      collecting_ = false;
      continue;  // others may have come, or have taken what waited
    }
    RunAndCallBack(lock);
  }
}

Clock::time_point Scheduler::GivesUpAt(const Request& request) {
  const auto time = std::max<Clock::duration>(request.deadline - request.submitted, {});
  return request.deadline - std::min<Clock::duration>(time / 10, std::chrono::milliseconds(50));
}

void Scheduler::DropDead(Clock::time_point now, const Status& missing, Finished* finished) {
  for (auto place = queue_.begin(); place != queue_.end();) {
    Work& work = **place;
    std::erase_if(work.waiters, [&](const Waiter& waiter) {
      Request& request = *waiter.request;
      if (!request.finished && request.cancel && request.cancel->cancelled()) {
        Fail(waiter.request, CancelledError("the request was cancelled"), finished);
      } else if (!request.finished && !missing.ok() && GivesUpAt(request) <= now) {
        Fail(waiter.request, missing, finished);
      } else if (!request.finished && request.deadline <= now) {
        Fail(waiter.request, DeadlineExceededError("the deadline passed while the request waited"),
             finished);
      }
      return request.finished;
    });
    if (work.waiters.empty()) {
      queued_tokens_ -= work.tokens();
      in_flight_.erase(work.key);
      place = queue_.erase(place);
    } else {
      ++place;
    }
  }
}

std::vector<Scheduler::WorkPtr> Scheduler::TakeBatch(Clock::time_point now) {
  std::vector<WaitingSequence> waiting;
  waiting.reserve(queue_.size());
  for (const WorkPtr& work : queue_) {
    waiting.push_back({work->tokens(), work->priority, work->arrived});
  }
  std::vector<size_t> chosen = ChooseBatch(waiting, now, options_.batching);
  std::vector<size_t> express;
  if (!last_step_.express) express = ChooseExpress(waiting, chosen, options_.batching);
  last_step_.express = !express.empty();
  if (last_step_.express) chosen.swap(express);
  std::vector<WorkPtr> batch;
  for (const size_t index : chosen) batch.push_back(std::move(queue_[index]));
  std::erase(queue_, nullptr);
  for (const WorkPtr& work : batch) {
    work->running = true;
    fair_order_.Serve(work->turn);
    queued_tokens_ -= work->tokens();
    tokens_run_ += static_cast<uint64_t>(work->tokens());
  }
  if (!batch.empty()) {
    ++batches_run_;
    sequences_run_ += batch.size();
    const auto bound = std::lower_bound(kBatchBounds.begin(), kBatchBounds.end(),
                                        static_cast<double>(batch.size()));
    ++batch_counts_[static_cast<size_t>(bound - kBatchBounds.begin())];
  }
  return batch;
}

void Scheduler::FailQueue(const Status& status, Finished* finished) {
  for (const WorkPtr& work : queue_) {
    for (const Waiter& waiter : work->waiters) Fail(waiter.request, status, finished);
    queued_tokens_ -= work->tokens();
    in_flight_.erase(work->key);
  }
  queue_.clear();
}

engine::Runner::Need Scheduler::NeedNow() const {
  // The clients of what waits may go without a word.
  constexpr auto kLookAgain = std::chrono::seconds(1);
  engine::Runner::Need need{Clock::time_point::max(), Clock::now() + kLookAgain};
  for (const WorkPtr& work : queue_) {
    need.oldest = std::min(need.oldest, work->arrived);
    for (const Waiter& waiter : work->waiters) {
      need.until = std::min(need.until, GivesUpAt(*waiter.request));
    }
  }
  return need;
}

void Scheduler::MakeReady(std::unique_lock<std::mutex>& lock, Finished* finished) {
  Status missing = OkStatus();
  engine_busy_ = true;
  while (true) {
    DropDead(Clock::now(), missing, finished);
    if (queue_.empty()) break;
    const engine::Runner::Need need = NeedNow();
    ready_until_ = need.until;
    lock.unlock();
    CallBack(*finished);  // what follows may take long
    finished->clear();
    Result<engine::Runner::Readied> ready = runner_->MakeReady(need);
    lock.lock();
    if (!ready.ok()) {
      FailQueue(ready.status(), finished);
      break;
    }
    missing = std::move(ready->missing);
    if (!missing.ok()) continue;
    if (ready->load_time > std::chrono::nanoseconds::zero()) {
      DropDead(Clock::now(), missing, finished);
      NoteLoadTime(ready->load_time);
    }
    break;
  }
  ready_until_ = Clock::time_point::min();
  engine_busy_ = false;
}

void Scheduler::NoteLoadTime(std::chrono::nanoseconds load_time) {
  for (const WorkPtr& work : queue_) {
    // Who came while it was loading waited for the rest.
    const auto share = std::min<std::chrono::nanoseconds>(load_time, Clock::now() - work->arrived);
    for (const Waiter& waiter : work->waiters) waiter.request->output.load_time = share;
  }
}

Scheduler::Finished Scheduler::RunOneBatch(std::unique_lock<std::mutex>& lock) noexcept {
  Finished finished;
  MakeReady(lock, &finished);
  const Clock::time_point start = Clock::now();
  const std::vector<WorkPtr> batch = TakeBatch(start);
  if (!batch.empty()) {
    engine_busy_ = true;
    for (const WorkPtr& work : batch) {
      for (const Waiter& waiter : work->waiters) {
        auto& queue_time = waiter.request->output.queue_time;
        queue_time = std::max<std::chrono::nanoseconds>(queue_time, start - work->arrived);
      }
    }
    lock.unlock();
    std::vector<engine::SequenceInput> inputs;
    for (const WorkPtr& work : batch) {
      inputs.push_back({&work->key.sequence, work->key.outputs});
    }
    const Result<std::unique_ptr<engine::Outputs>> outputs = runner_->Run(inputs);
    const auto inference_time = Clock::now() - start;
    lock.lock();
    engine_busy_ = false;
    last_step_.sequences = batch.size();
    last_step_.end = start + inference_time;
    last_step_.length = inference_time;
    busy_seconds_ += std::chrono::duration<double>(inference_time).count();
    Complete(batch, outputs, inference_time, &finished);
  }
  return finished;
}

void Scheduler::RunAndCallBack(std::unique_lock<std::mutex>& lock) {
  const Finished finished = RunOneBatch(lock);
  const bool more = !queue_.empty();
  lock.unlock();
  if (more) engine_wanted_.notify_one();
  CallBack(finished);
  lock.lock();
  blocking_done_.notify_all();
}

void Scheduler::Complete(const std::vector<WorkPtr>& batch,
                         const Result<std::unique_ptr<engine::Outputs>>& outputs,
                         std::chrono::nanoseconds inference_time, Finished* finished) {
  int64_t batch_tokens = 0;
  for (const WorkPtr& work : batch) batch_tokens += work->tokens();
  for (size_t index = 0; index < batch.size(); ++index) {
    Work& work = *batch[index];
    in_flight_.erase(work.key);
    const Result<OutputPtr> result = TakeOutput(work, index, outputs);
    if (result.ok()) {
      cache_.Put(work.key, *result);
      if (result_file_ != nullptr) result_file_->Append(work.key, *result);
    }
    for (Waiter& waiter : work.waiters) {
      waiter.request->output.inference_time += inference_time * work.tokens() / batch_tokens;
      FinishSequence(waiter, result, finished);
    }
  }
}

Result<Scheduler::OutputPtr> Scheduler::TakeOutput(
    const Work& work, size_t index, const Result<std::unique_ptr<engine::Outputs>>& outputs) {
  if (!outputs.ok()) return InternalError("the engine failed: " + outputs.status().message());
  auto owned = std::make_shared<SequenceOutput>();
  for (const OutputKind kind : kOutputKinds) {
    if (!work.key.outputs.Has(kind)) continue;
    PERGOLA_ASSIGN_OR_RETURN(const ConstF32Matrix rows,
                             (*outputs)->Rows(static_cast<int64_t>(index), kind));
    service::Rows& copy = (*owned)[kind];
    copy = {rows.rows, rows.cols, {rows.data, rows.data + rows.rows * rows.cols}};
    if (!AllFinite(copy.values)) {
      return InternalError("the model gave a value that is not finite for this input");
    }
  }
  return OutputPtr(std::move(owned));
}

void Scheduler::FinishSequence(Waiter& waiter, const Result<OutputPtr>& output,
                               Finished* finished) {
  Request& request = *waiter.request;
  if (request.finished) return;
  if (!output.ok()) {
    Fail(waiter.request, output.status(), finished);
    return;
  }
  request.output.sequences[waiter.index] = *output;
  if (--request.open == 0) FinishRequest(waiter.request, finished);
}

void Scheduler::FinishRequest(const std::shared_ptr<Request>& request, Finished* finished) {
  request->finished = true;
  finished->push_back(request);
}

void Scheduler::Fail(const std::shared_ptr<Request>& request, Status status, Finished* finished) {
  if (request->finished) return;
  request->status = std::move(status);
  request->output = {};  // others who wait for its sequences may keep the request for long
  FinishRequest(request, finished);
}

void Scheduler::CallBack(const Finished& finished) {
  for (const std::shared_ptr<Request>& request : finished) {
    if (request->status.ok()) {
      request->done(std::move(request->output));
    } else {
      request->done(std::move(request->status));
    }
    request->done = nullptr;
  }
}

std::vector<service::MetricSample> Scheduler::Metrics() const {
  using service::MetricKind;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto counter = [](std::string name, std::string help, double value) {
    return service::MetricSample{
        std::move(name), std::move(help), MetricKind::kCounter, {}, value, {}, {}};
  };
  const auto gauge = [](std::string name, std::string help, double value) {
    return service::MetricSample{
        std::move(name), std::move(help), MetricKind::kGauge, {}, value, {}, {}};
  };
  std::vector<service::MetricSample> samples = {
      gauge("pergola_queue_sequences", "Sequences that wait for the engine.",
            static_cast<double>(queue_.size())),
      gauge("pergola_queue_tokens", "Tokens that wait for the engine.",
            static_cast<double>(queued_tokens_)),
      gauge("pergola_promised_bytes",
            "Bytes of rows promised to requests whose answer is not yet written.",
            static_cast<double>(promised_.taken())),
      counter("pergola_batches_total", "Batches run.", static_cast<double>(batches_run_)),
      counter("pergola_batch_tokens_total", "Tokens computed.", static_cast<double>(tokens_run_)),
      counter("pergola_engine_busy_seconds_total", "Time spent in forward passes.", busy_seconds_),
      counter("pergola_cache_hits_total", "Sequences answered from the cache.",
              static_cast<double>(cache_hits_)),
      counter("pergola_cache_misses_total", "Sequences not found in the cache.",
              static_cast<double>(cache_misses_)),
      counter("pergola_joined_total", "Sequences that shared a computation under way.",
              static_cast<double>(joined_)),
      counter("pergola_refused_total", "Requests refused by admission.",
              static_cast<double>(refused_)),
      gauge("pergola_cache_bytes", "Bytes held by the cache.", static_cast<double>(cache_.bytes())),
      gauge("pergola_cache_entries", "Rows held by the cache.",
            static_cast<double>(cache_.entries())),
  };
  samples.push_back({"pergola_batch_size",
                     "Sequences per batch.",
                     MetricKind::kHistogram,
                     {},
                     static_cast<double>(sequences_run_),
                     {kBatchBounds.begin(), kBatchBounds.end()},
                     {batch_counts_.begin(), batch_counts_.end()}});
  if (result_file_ != nullptr) {
    for (service::MetricSample& sample : result_file_->Metrics()) {
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

}  // namespace pergola::scheduler
