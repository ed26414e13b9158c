#include "scheduler/cached_service.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "scheduler/result_cache.h"
#include "scheduler/result_file.h"

namespace pergola::scheduler {
namespace {

using service::CancelToken;
using service::InferenceOutput;
using service::InferenceRequest;
using OutputPtr = std::shared_ptr<const service::SequenceOutput>;

// Whether a request fails so for reasons of its own: another with the same sequence may do better.
bool IsOwnFailure(StatusCode code) {
  return code == StatusCode::kCancelled || code == StatusCode::kDeadlineExceeded ||
         code == StatusCode::kResourceExhausted || code == StatusCode::kInvalidArgument;
}

}  // namespace

class CachedService::State : public std::enable_shared_from_this<State> {
 public:
  State(std::shared_ptr<service::InferenceService> service, const Options& options)
      : service_(std::move(service)), options_(options), cache_(0) {
    const std::vector<service::ModelInfo> models = service_->Models();
    if (!models.empty()) model_ = models[0].id;
  }

  void Stop();
  void SetIdentity(const std::string& identity);
  void Submit(InferenceRequest request, service::InferenceCallback done);
  const service::InferenceService& service() const { return *service_; }
  std::vector<service::MetricSample> Metrics() const;

 private:
  struct Flight;
  using FlightPtr = std::shared_ptr<Flight>;
  // One request of a caller; what is not const is guarded by the state's mutex.
  struct Request {
    InferenceRequest asked;  // without sequences
    service::InferenceCallback done;
    CancelToken::ListenerId listener = 0;  // does not change once finished
    size_t open = 0;                       // sequences not yet answered
    bool cancelled = false;
    bool finished = false;
    Status status;
    InferenceOutput output;
    std::vector<std::shared_ptr<const void>> promises;
    std::vector<FlightPtr> awaited;  // for each open sequence
  };
  using RequestPtr = std::shared_ptr<Request>;
  struct Waiter {
    RequestPtr request;
    size_t index;  // of the sequence within the request
  };
  struct Passenger {
    SequenceKey key;
    std::vector<Waiter> waiters;
  };
  // One request to the service; guarded likewise.
  struct Flight {
    RequestPtr leader;
    std::vector<Passenger> passengers;
    std::shared_ptr<CancelToken> cancel = std::make_shared<CancelToken>();
    int64_t wanted = 0;   // waiters that have not given up
    bool shared = false;  // others may join: its passengers stand in under_way_
    bool landed = false;
  };
  struct Place {
    FlightPtr flight;
    size_t passenger;
  };
  // Things to do once the mutex is free.
  struct Later {
    std::vector<FlightPtr> send;
    std::vector<RequestPtr> finished;
    std::vector<std::shared_ptr<CancelToken>> cancel;
  };

  // Without the mutex.
  void OpenFile(const std::string& identity, uint64_t generation);
  void Do(const Later& later);
  void Send(const FlightPtr& flight);
  void OnAnswer(const FlightPtr& flight, Result<InferenceOutput> output);
  void OnCancel(const RequestPtr& request);

  // All of these with mutex_ held.
  void Enter(const RequestPtr& request, size_t index, Sequence sequence, FlightPtr* own);
  void Board(const FlightPtr& flight, SequenceKey key, const Waiter& waiter);
  void Land(const FlightPtr& flight, const Result<InferenceOutput>& output, Later* later);
  void Deliver(const Flight& flight, const InferenceOutput& output, Later* later);
  void FailAll(const Flight& flight, const Status& status, Later* later);
  void TakeOut(const Flight& flight);
  static void Finish(const RequestPtr& request, Status status, Later* later);

  std::shared_ptr<service::InferenceService> service_;  // until Stop
  const Options options_;
  std::string model_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable landed_;
  ResultCache cache_;
  std::string identity_;
  uint64_t generation_ = 0;           // changes with identity_
  std::unique_ptr<ResultFile> file_;  // of that identity; may be null
  bool file_failed_ = false;          // it could not be opened
  std::unordered_map<SequenceKey, Place, SequenceKeyHash> under_way_;
  std::unordered_set<FlightPtr> flights_;  // not yet called back
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
  uint64_t joined_ = 0;
};

void CachedService::State::Stop() {
  Later later;
  std::unique_lock<std::mutex> lock(mutex_);
  for (const FlightPtr& flight : flights_) later.cancel.push_back(flight->cancel);
  lock.unlock();
  Do(later);
  lock.lock();
  landed_.wait(lock, [this] { return flights_.empty(); });
  // Here and not with the last callback: on one of the service's own threads its end would wait for
  // itself.
  const auto ended = std::move(service_);
  const auto written = std::move(file_);
  lock.unlock();
}

void CachedService::State::SetIdentity(const std::string& identity) {
  std::unique_ptr<ResultFile> before;  // ends without the mutex: it writes what waits
  uint64_t generation = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (identity == identity_) return;
    identity_ = identity;
    generation = ++generation_;
    cache_ = ResultCache(identity.empty() ? 0 : options_.cache_bytes);
    under_way_.clear();  // nobody joins what was begun before
    before = std::move(file_);
    file_failed_ = false;
  }
  before.reset();
  if (!identity.empty() && !options_.cache_file.empty()) OpenFile(identity, generation);
}

void CachedService::State::OpenFile(const std::string& identity, uint64_t generation) {
  ResultFileOptions options;
  options.path = options_.cache_file;
  options.identity = identity;
  options.max_bytes = options_.cache_file_bytes;
  options.tell = options_.tell;
  // Perhaps only when the file is free, and then with another identity's cache in place.
  const auto take = [this, generation](const SequenceKey& key, StoredOutput output) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (generation == generation_) cache_.Put(key, std::move(output));
  };
  auto file = ResultFile::Open(std::move(options), take);
  if (!file.ok()) options_.tell(file.status().message());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (generation != generation_ || service_ == nullptr) return;
  file_failed_ = !file.ok();
  if (file.ok()) file_ = std::move(*file);
}

void CachedService::State::Submit(InferenceRequest request, service::InferenceCallback done) {
  if (!request.model.empty() && request.model != model_) {
    return service_->Submit(std::move(request), std::move(done));
  }
  auto state = std::make_shared<Request>();
  std::vector<Sequence> sequences = std::move(request.sequences);
  state->asked = std::move(request);
  state->done = std::move(done);
  state->open = sequences.size();
  state->output.sequences.resize(sequences.size());
  Later later;
  bool waits = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    FlightPtr own;
    for (size_t index = 0; index < sequences.size(); ++index) {
      Enter(state, index, std::move(sequences[index]), &own);
    }
    if (own != nullptr) later.send.push_back(own);
    if (state->open == 0) Finish(state, OkStatus(), &later);
    waits = !state->awaited.empty();
  }
  if (state->asked.cancel != nullptr && waits) {
    const auto listener =
        state->asked.cancel->Listen([self = shared_from_this(), state] { self->OnCancel(state); });
    std::unique_lock<std::mutex> lock(mutex_);
    const bool finished = state->finished;
    if (!finished) state->listener = listener;
    lock.unlock();
    if (finished) state->asked.cancel->Forget(listener);
  }
  Do(later);
}

void CachedService::State::Enter(const RequestPtr& request, size_t index, Sequence sequence,
                                 FlightPtr* own) {
  SequenceKey key{request->asked.outputs, std::move(sequence)};
  if (OutputPtr output = cache_.Get(key)) {
    ++hits_;
    ++request->output.cache_hits;
    service::JoinIdentity(identity_, &request->output.rows_identity);
    request->output.sequences[index] = std::move(output);
    --request->open;
    return;
  }
  ++misses_;
  if (options_.single_flight) {
    const auto found = under_way_.find(key);
    if (found != under_way_.end() &&
        found->second.flight->leader->asked.priority <= request->asked.priority) {
      ++joined_;
      const auto& [flight, passenger] = found->second;
      flight->passengers[passenger].waiters.push_back({request, index});
      ++flight->wanted;
      request->awaited.push_back(flight);
      return;
    }
  }
  if (*own == nullptr) {
    *own = std::make_shared<Flight>();
    (*own)->leader = request;
    (*own)->shared = options_.single_flight;
  }
  Board(*own, std::move(key), {request, index});
}

void CachedService::State::Board(const FlightPtr& flight, SequenceKey key, const Waiter& waiter) {
  if (flight->passengers.empty()) flights_.insert(flight);
  // Something that goes behind may stand there: whoever comes next joins this one.
  if (flight->shared) under_way_.insert_or_assign(key, Place{flight, flight->passengers.size()});
  flight->passengers.push_back({std::move(key), {waiter}});
  ++flight->wanted;
  waiter.request->awaited.push_back(flight);
}

void CachedService::State::Do(const Later& later) {
  for (const auto& cancel : later.cancel) cancel->Cancel();
  for (const FlightPtr& flight : later.send) Send(flight);
  for (const RequestPtr& request : later.finished) {
    if (request->asked.cancel != nullptr) request->asked.cancel->Forget(request->listener);
    if (request->status.ok()) {
      request->done(std::move(request->output));
    } else {
      request->done(std::move(request->status));
    }
    request->done = nullptr;
  }
}

void CachedService::State::Send(const FlightPtr& flight) {
  const InferenceRequest& asked = flight->leader->asked;
  InferenceRequest request;
  request.model = asked.model;
  request.outputs = asked.outputs;
  request.priority = asked.priority;
  request.deadline = asked.deadline;
  request.tenant = asked.tenant;
  request.trace = asked.trace;
  request.cancel = flight->cancel;
  // Without the mutex: those who join meanwhile change nothing but the waiters.
  request.sequences.reserve(flight->passengers.size());
  for (const Passenger& passenger : flight->passengers) {
    request.sequences.push_back(passenger.key.sequence);
  }
  service_->Submit(std::move(request),
                   [self = shared_from_this(), flight](Result<InferenceOutput> output) {
                     self->OnAnswer(flight, std::move(output));
                   });
}

void CachedService::State::OnAnswer(const FlightPtr& flight, Result<InferenceOutput> output) {
  Later later;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Land(flight, output, &later);
  }
  Do(later);
  const std::lock_guard<std::mutex> lock(mutex_);
  flights_.erase(flight);
  flight->passengers.clear();
  flight->leader = nullptr;
  if (flights_.empty()) landed_.notify_all();
}

void CachedService::State::OnCancel(const RequestPtr& request) {
  Later later;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (request->finished) return;
    request->cancelled = true;
    for (const FlightPtr& flight : request->awaited) {
      if (flight->landed || --flight->wanted > 0) continue;
      TakeOut(*flight);
      later.cancel.push_back(flight->cancel);
    }
    // Else its last flight tells: until then there is work for it.
    if (later.cancel.empty()) Finish(request, CancelledError("the request was cancelled"), &later);
  }
  Do(later);
}

void CachedService::State::TakeOut(const Flight& flight) {
  for (const Passenger& passenger : flight.passengers) {
    const auto place = under_way_.find(passenger.key);
    if (place != under_way_.end() && place->second.flight.get() == &flight) under_way_.erase(place);
  }
}

void CachedService::State::Land(const FlightPtr& flight, const Result<InferenceOutput>& output,
                                Later* later) {
  flight->landed = true;
  TakeOut(*flight);
  if (!output.ok()) return FailAll(*flight, output.status(), later);
  if (output->sequences.size() != flight->passengers.size()) {
    return FailAll(
        *flight,
        InternalError("the service answered " + std::to_string(output->sequences.size()) + " of " +
                      std::to_string(flight->passengers.size()) + " sequences"),
        later);
  }
  Deliver(*flight, *output, later);
}

void CachedService::State::Deliver(const Flight& flight, const InferenceOutput& output,
                                   Later* later) {
  int64_t tokens = 0;
  for (const Passenger& passenger : flight.passengers) tokens += passenger.key.sequence.tokens();
  flight.leader->output.cache_hits += output.cache_hits;
  for (size_t i = 0; i < flight.passengers.size(); ++i) {
    const auto& [key, waiters] = flight.passengers[i];
    if (!identity_.empty() && output.rows_identity == identity_) {
      cache_.Put(key, output.sequences[i]);
      if (file_ != nullptr) file_->Append(key, output.sequences[i]);
    }
    for (const Waiter& waiter : waiters) {
      Request& request = *waiter.request;
      if (request.finished) continue;
      service::JoinIdentity(output.rows_identity, &request.output.rows_identity);
      request.output.queue_time = std::max(request.output.queue_time, output.queue_time);
      request.output.inference_time += output.inference_time * key.sequence.tokens() / tokens;
      request.output.sequences[waiter.index] = output.sequences[i];
      if (output.promise != nullptr &&
          (request.promises.empty() || request.promises.back() != output.promise)) {
        request.promises.push_back(output.promise);
      }
      if (--request.open > 0) continue;
      Finish(waiter.request,
             request.cancelled ? CancelledError("the request was cancelled") : OkStatus(), later);
    }
  }
}

void CachedService::State::FailAll(const Flight& flight, const Status& status, Later* later) {
  // Of each request that goes on alone.
  std::unordered_map<Request*, FlightPtr> again;
  for (const Passenger& passenger : flight.passengers) {
    for (const Waiter& waiter : passenger.waiters) {
      const RequestPtr& request = waiter.request;
      if (request->finished) continue;
      if (request == flight.leader || request->cancelled || !IsOwnFailure(status.code())) {
        Finish(request, status, later);
        continue;
      }
      FlightPtr& own = again[request.get()];
      if (own == nullptr) {
        own = std::make_shared<Flight>();
        own->leader = request;
      }
      Board(own, passenger.key, waiter);
    }
  }
  for (const auto& [request, own] : again) later->send.push_back(own);
}

void CachedService::State::Finish(const RequestPtr& request, Status status, Later* later) {
  request->finished = true;
  request->status = std::move(status);
  request->awaited.clear();
  if (!request->status.ok()) {
    request->output = {};  // flights of others may keep the request for long
    request->promises.clear();
  } else if (request->promises.size() == 1) {
    request->output.promise = std::move(request->promises[0]);
  } else if (!request->promises.empty()) {
    request->output.promise =
        std::make_shared<const std::vector<std::shared_ptr<const void>>>(request->promises);
  }
  later->finished.push_back(request);
}

std::vector<service::MetricSample> CachedService::State::Metrics() const {
  using service::MetricKind;
  const auto sample = [](std::string name, std::string help, MetricKind kind, double value) {
    return service::MetricSample{std::move(name), std::move(help), kind, {}, value, {}, {}};
  };
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<service::MetricSample> samples = {
      sample("pergola_cache_hits_total", "Sequences answered from the cache.", MetricKind::kCounter,
             static_cast<double>(hits_)),
      sample("pergola_cache_misses_total", "Sequences not found in the cache.",
             MetricKind::kCounter, static_cast<double>(misses_)),
      sample("pergola_joined_total", "Sequences that shared a computation under way.",
             MetricKind::kCounter, static_cast<double>(joined_)),
      sample("pergola_cache_bytes", "Bytes held by the cache.", MetricKind::kGauge,
             static_cast<double>(cache_.bytes())),
      sample("pergola_cache_entries", "Rows held by the cache.", MetricKind::kGauge,
             static_cast<double>(cache_.entries())),
  };
  if (file_ != nullptr) {
    for (service::MetricSample& of_file : file_->Metrics()) samples.push_back(std::move(of_file));
  } else if (file_failed_) {
    samples.push_back(
        sample("pergola_cache_file_writable",
               "0: opening or writing failed and was given up, or the file is locked.",
               MetricKind::kGauge, 0));
  }
  return samples;
}

CachedService::CachedService(std::shared_ptr<service::InferenceService> service,
                             const Options& options)
    : state_(std::make_shared<State>(std::move(service), options)) {}

CachedService::~CachedService() { state_->Stop(); }

void CachedService::SetIdentity(const std::string& identity) { state_->SetIdentity(identity); }

void CachedService::Submit(InferenceRequest request, service::InferenceCallback done) {
  state_->Submit(std::move(request), std::move(done));
}

std::vector<service::ModelInfo> CachedService::Models() const { return state_->service().Models(); }

std::vector<service::MetricSample> CachedService::Metrics() const { return state_->Metrics(); }

}  // namespace pergola::scheduler
