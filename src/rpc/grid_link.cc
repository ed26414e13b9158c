#include "rpc/grid_link.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "pergola/v1/grid.grpc.pb.h"
#include "rpc/grpc_log.h"
#include "rpc/status.h"
#include "service/bearer_key.h"

namespace pergola::rpc {
namespace {

constexpr char kAuthorization[] = "authorization";
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{1000};
constexpr std::chrono::milliseconds kLookPeriod{50};  // how often a pause looks for its end
constexpr std::chrono::seconds kLeaveTime{1};
constexpr std::chrono::milliseconds kAskTime{5000};
constexpr std::chrono::milliseconds kSpareConnectTime{1000};
constexpr int kConnectTimeMs = 2000;

void Encode(const service::GridMemberFacts& facts, v1::Announcement* out) {
  out->set_model(facts.model);
  out->set_identity(facts.identity);
  out->set_numeric_class(facts.numeric_class);
  out->set_url(facts.url);
  if (facts.embed) out->add_capabilities("embed");
  if (facts.head) out->add_capabilities("head");
  if (facts.ffn) out->add_capabilities("ffn");
  out->set_first_layer(facts.first_layer);
  out->set_last_layer(facts.last_layer);
  out->set_num_layers(facts.num_layers);
  out->set_hidden_size(facts.hidden_size);
  out->set_vocab_size(facts.vocab_size);
  out->set_embed_scale(facts.embed_scale);
  out->set_memory_bytes(facts.memory_bytes);
  out->set_slices_url(facts.slices_url);
}

service::GridMemberFacts Decode(const v1::Announcement& in) {
  service::GridMemberFacts facts;
  facts.model = in.model();
  facts.identity = in.identity();
  facts.numeric_class = in.numeric_class();
  facts.url = in.url();
  for (const std::string& capability : in.capabilities()) {
    const bool full = capability == "full";
    facts.embed |= full || capability == "embed";
    facts.head |= full || capability == "head";
    facts.ffn |= full || capability == "ffn";
  }
  facts.first_layer = in.first_layer();
  facts.last_layer = in.last_layer();
  facts.num_layers = in.num_layers();
  facts.hidden_size = in.hidden_size();
  facts.vocab_size = in.vocab_size();
  facts.embed_scale = in.embed_scale();
  facts.memory_bytes = in.memory_bytes();
  facts.slices_url = in.slices_url();
  return facts;
}

void Encode(const service::GridAssignment& assignment, v1::Assignment* out) {
  out->set_model(assignment.model);
  out->set_identity(assignment.identity);
  out->set_numeric_class(assignment.numeric_class);
  out->set_part(assignment.embed ? "embed" : "ffn");
  out->set_first_layer(assignment.first_layer);
  out->set_last_layer(assignment.last_layer);
  out->mutable_sources()->Add(assignment.sources.begin(), assignment.sources.end());
}

service::GridAssignment Decode(const v1::Assignment& in) {
  service::GridAssignment assignment;
  assignment.model = in.model();
  assignment.identity = in.identity();
  assignment.numeric_class = in.numeric_class();
  assignment.embed = in.part() == "embed";
  assignment.first_layer = in.first_layer();
  assignment.last_layer = in.last_layer();
  assignment.sources.assign(in.sources().begin(), in.sources().end());
  return assignment;
}

class JoinReactor;

// The streams that are open, and who ends those that are silent. Finish and StartRead exclude each
// other by its mutex, which is recursive so that it would not matter if gRPC called back within.
class JoinStreams {
 public:
  JoinStreams(size_t most, std::chrono::milliseconds silence)
      : most_(most), silence_(silence), thread_([this] { Watch(); }) {}
  ~JoinStreams();

  std::recursive_mutex& mutex() { return mutex_; }
  // False: there are too many. The mutex is held for these two.
  bool Add(JoinReactor* reactor);
  void Remove(JoinReactor* reactor) { open_.erase(reactor); }

 private:
  void Watch();

  const size_t most_;
  const std::chrono::milliseconds silence_;
  std::recursive_mutex mutex_;  // guards the next two, and what reactors say
  std::unordered_set<JoinReactor*> open_;
  bool stopping_ = false;
  std::condition_variable_any wake_;
  std::thread thread_;  // last: it uses what stands above
};

// One membership, as long as its stream lives. One operation at a time is under way, so that its
// calls never overlap. Deletes itself.
class JoinReactor : public grpc::ServerBidiReactor<v1::JoinRequest, v1::JoinResponse> {
 public:
  // `key`: what it may join with, which it announces by that.
  JoinReactor(service::GridRegistry& registry, JoinStreams& streams, bool admitted, std::string key)
      : registry_(registry), streams_(streams), key_(std::move(key)) {
    const std::lock_guard lock(streams_.mutex());
    if (!admitted) {
      End({grpc::StatusCode::UNAUTHENTICATED, "joining needs a key of this router"});
    } else if (!streams_.Add(this)) {
      End({grpc::StatusCode::RESOURCE_EXHAUSTED, "the router has no room for more members"});
    } else {
      StartRead(&request_);
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok || request_.has_leaving()) {
      Leave();
      return EndLocked(grpc::Status::OK);
    }
    Status status = InvalidArgumentError("the first message must be an announcement, once");
    bool joined = false;
    if (request_.has_announcement() && !id_) {
      service::GridMemberFacts facts = Decode(request_.announcement());
      facts.key = key_;
      const Result<uint64_t> id = registry_.Add(facts);
      status = id.status();
      joined = id.ok();
      if (joined) id_ = *id;
    } else if (request_.has_heartbeat() && id_) {
      const v1::Heartbeat& beat = request_.heartbeat();
      status = registry_.Beat(*id_, {beat.in_flight(), beat.requests(), beat.memory_bytes()});
    }
    if (!status.ok()) return EndLocked(ToGrpcStatus(status));
    const std::lock_guard lock(streams_.mutex());
    if (ended_) return;
    heard_ = std::chrono::steady_clock::now();
    if (!joined) return StartRead(&request_);
    response_.set_member_id(*id_);
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return EndLocked(grpc::Status::OK);
    const std::lock_guard lock(streams_.mutex());
    if (!ended_) StartRead(&request_);
  }
  void OnDone() override {
    Leave();
    {
      const std::lock_guard lock(streams_.mutex());
      streams_.Remove(this);
    }
    delete this;
  }

  // The mutex is held for these two.
  std::chrono::steady_clock::time_point heard() const { return heard_; }
  // Only the first one counts; until then nothing deletes the reactor.
  void End(const grpc::Status& status) {
    if (!std::exchange(ended_, true)) Finish(status);
  }

 private:
  void EndLocked(const grpc::Status& status) {
    const std::lock_guard lock(streams_.mutex());
    End(status);
  }
  void Leave() {
    if (id_) registry_.Remove(*id_);
  }

  service::GridRegistry& registry_;
  JoinStreams& streams_;
  const std::string key_;
  std::optional<uint64_t> id_;
  v1::JoinRequest request_;
  v1::JoinResponse response_;
  // Guarded by the mutex of the streams.
  bool ended_ = false;
  std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
};

JoinStreams::~JoinStreams() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool JoinStreams::Add(JoinReactor* reactor) {
  if (open_.size() >= most_) return false;
  open_.insert(reactor);
  return true;
}

void JoinStreams::Watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, silence_ / 4, [this] { return stopping_; })) {
    const auto oldest = std::chrono::steady_clock::now() - silence_;
    std::vector<JoinReactor*> silent;
    for (JoinReactor* reactor : open_) {
      if (reactor->heard() < oldest) silent.push_back(reactor);
    }
    for (JoinReactor* reactor : silent) {
      reactor->End({grpc::StatusCode::DEADLINE_EXCEEDED, "nothing was heard for too long"});
    }
  }
}

class GridService : public v1::Grid::CallbackService {
 public:
  GridService(service::GridRegistry& registry, const GridListenerOptions& options)
      : registry_(registry),
        admits_(options.admits),
        streams_(options.max_joins, options.silence) {}

  grpc::ServerBidiReactor<v1::JoinRequest, v1::JoinResponse>* Join(
      grpc::CallbackServerContext* context) override {
    return new JoinReactor(registry_, streams_, Admits(*context), KeyOf(*context));
  }
  grpc::ServerUnaryReactor* Assign(grpc::CallbackServerContext* context,
                                   const v1::AssignRequest* request,
                                   v1::AssignResponse* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    if (!Admits(*context)) {
      reactor->Finish({grpc::StatusCode::UNAUTHENTICATED, "joining needs a key of this router"});
      return reactor;
    }
    const auto assignment =
        registry_.Assign({request->spare(), request->failed(), request->leaving()});
    if (assignment.ok() && *assignment) Encode(**assignment, response->mutable_assignment());
    reactor->Finish(assignment.ok() ? grpc::Status::OK : ToGrpcStatus(assignment.status()));
    return reactor;
  }
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::GridStatusRequest* /*request*/,
                                   v1::GridStatusResponse* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const bool admitted = Admits(*context);
    if (admitted) response->set_json(registry_.GridJson());
    reactor->Finish(admitted ? grpc::Status::OK
                             : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "a key is needed"));
    return reactor;
  }

 private:
  // Empty: none was given.
  static std::string_view AuthorizationOf(const grpc::CallbackServerContext& context) {
    const auto found = context.client_metadata().find(kAuthorization);
    if (found == context.client_metadata().end()) return {};
    return {found->second.data(), found->second.size()};
  }
  bool Admits(const grpc::CallbackServerContext& context) const {
    return !admits_ || admits_(AuthorizationOf(context));
  }
  static std::string KeyOf(const grpc::CallbackServerContext& context) {
    return std::string(service::BearerKey(AuthorizationOf(context)));
  }

  service::GridRegistry& registry_;
  const std::function<bool(std::string_view)> admits_;
  JoinStreams streams_;
};

std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const LinkTls& tls) {
  if (tls.ca.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = tls.ca;
  options.pem_cert_chain = tls.cert;
  options.pem_private_key = tls.key;
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::Channel> MakeLinkChannel(const std::string& target, const LinkTls& tls) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // What gRPC calls so is the time that an attempt gets, TLS handshake included.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 2000);
  // Long: an answer that is late on a loaded machine must not end a membership.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(target, ClientCredentials(tls), arguments);
}

}  // namespace

struct GridListener::State {
  State(service::GridRegistry& registry, const GridListenerOptions& options)
      : service(registry, options) {}
  std::unique_ptr<ServerTls> tls;  // null: none
  GridService service;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

GridListener::GridListener(std::unique_ptr<State> state) : state_(std::move(state)) {}

GridListener::~GridListener() {
  state_->server->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
  state_->server->Wait();
}

int GridListener::port() const { return state_->port; }

Status GridListener::RenewTls(const LinkTls& tls) {
  return state_->tls == nullptr ? OkStatus() : state_->tls->Renew(tls);
}

Result<std::unique_ptr<GridListener>> GridListener::Start(const GridListenerOptions& options,
                                                          service::GridRegistry& registry) {
  QuietGrpcLog();
  auto state = std::make_unique<State>(registry, options);
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!options.tls.cert.empty()) {
    PERGOLA_ASSIGN_OR_RETURN(state->tls, ServerTls::Make(options.tls));
    credentials = state->tls->credentials();
  }
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(64 * 1024);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             static_cast<int>(options.silence.count() / 2));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             static_cast<int>(options.silence.count() / 2));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.RegisterService(&state->service);
  const bool v6 = options.host.find(':') != std::string::npos;
  const std::string address =
      (v6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
  builder.AddListeningPort(address, credentials, &state->port);
  state->server = builder.BuildAndStart();
  if (state->server == nullptr || state->port == 0) {
    return UnavailableError("cannot listen on " + address);
  }
  return std::unique_ptr<GridListener>(new GridListener(std::move(state)));
}

struct GridLink::State {
  std::string target;
  GridLinkOptions options;
  std::shared_ptr<grpc::Channel> channel;  // this and the next: of the link's thread
  std::unique_ptr<v1::Grid::Stub> stub;
  std::mutex mutex;                // guards what follows
  std::optional<LinkTls> renewed;  // to join with from now on
  std::condition_variable wake;
  bool stopping = false;
  bool ended = false;                      // the thread is about to end
  grpc::ClientContext* context = nullptr;  // of the stream that is open
  bool joined = false;                     // else it may be cancelled at once
  std::optional<Status> told;              // thread-confined
  std::thread thread;

  using Stream = grpc::ClientReaderWriter<v1::JoinRequest, v1::JoinResponse>;

  void Run();
  Status KeepMembership(grpc::ClientContext& call);
  void Beat(Stream& stream);
  void Tell(const Status& status);
  bool PauseConnecting(std::chrono::milliseconds time);
  // True: stopping.
  bool Pause(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, time, [this] { return stopping; });
  }
};

// As Pause. The channel goes on connecting meanwhile: gRPC does so on threads that wait for it, and
// calls that fail at once are too short for a handshake.
bool GridLink::State::PauseConnecting(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    const bool idle = left.count() <= 0 || channel->GetState(false) == GRPC_CHANNEL_READY;
    if (idle || Pause(std::chrono::milliseconds(0))) return Pause(std::max(left, {}));
    channel->WaitForConnected(std::chrono::system_clock::now() + std::min(left, kLookPeriod));
  }
}

void GridLink::State::Tell(const Status& status) {
  if (told && told->code() == status.code() && told->message() == status.message()) return;
  told = status;
  if (options.changed) options.changed(status);
}

// Until the stream fails or the link stops.
void GridLink::State::Beat(Stream& stream) {
  for (;;) {
    const bool stop = Pause(options.beat);
    v1::JoinRequest request;
    if (stop) {
      request.mutable_leaving();
      stream.Write(request);
      return;
    }
    const service::GridLoad load = options.load ? options.load() : service::GridLoad();
    v1::Heartbeat* const beat = request.mutable_heartbeat();
    beat->set_in_flight(load.in_flight);
    beat->set_requests(load.requests);
    beat->set_memory_bytes(load.memory_bytes);
    if (!stream.Write(request)) return;
  }
}

Status GridLink::State::KeepMembership(grpc::ClientContext& call) {
  if (!options.key.empty()) call.AddMetadata(kAuthorization, "Bearer " + options.key);
  const std::unique_ptr<Stream> stream = stub->Join(&call);
  v1::JoinRequest request;
  Encode(options.facts, request.mutable_announcement());
  v1::JoinResponse response;
  if (stream->Write(request) && stream->Read(&response)) {
    {
      const std::lock_guard lock(mutex);
      joined = true;
    }
    Tell(OkStatus());
    Beat(*stream);
  }
  stream->WritesDone();
  const Status status = FromGrpcStatus(stream->Finish());
  return status.ok() ? UnavailableError("the router has ended the membership") : status;
}

void GridLink::State::Run() {
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    grpc::ClientContext open;
    {
      const std::lock_guard lock(mutex);
      if (stopping) break;
      context = &open;
      joined = false;
      if (renewed) {
        channel = MakeLinkChannel(target, *renewed);
        stub = v1::Grid::NewStub(channel);
        renewed.reset();
      }
    }
    const Status status = KeepMembership(open);
    bool was_member = false;
    {
      const std::lock_guard lock(mutex);
      context = nullptr;
      was_member = joined;
      if (stopping) break;
    }
    Tell(status);
    pause = was_member ? kFirstPause : std::min(2 * pause, kLongestPause);
    if (PauseConnecting(pause)) break;
  }
  const std::lock_guard lock(mutex);
  ended = true;
  wake.notify_all();
}

GridLink::GridLink(const std::string& target, GridLinkOptions options)
    : state_(std::make_unique<State>()) {
  QuietGrpcLog();
  state_->target = target;
  state_->options = std::move(options);
  state_->renewed = state_->options.tls;
  state_->thread = std::thread([state = state_.get()] { state->Run(); });
}

GridLink::~GridLink() {
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->wake.notify_all();
    const bool leaves =
        state_->joined && state_->wake.wait_for(lock, kLeaveTime, [this] { return state_->ended; });
    if (!leaves && state_->context != nullptr) state_->context->TryCancel();
  }
  state_->thread.join();
}

void GridLink::RenewTls(const LinkTls& tls) {
  const std::lock_guard lock(state_->mutex);
  state_->renewed = tls;
}

struct SpareLink::State {
  std::string key;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Grid::Stub> stub;
};

SpareLink::SpareLink(const std::string& target, std::string key, const LinkTls& tls)
    : state_(std::make_unique<State>()) {
  QuietGrpcLog();
  state_->key = std::move(key);
  state_->channel = MakeLinkChannel(target, tls);
  state_->stub = v1::Grid::NewStub(state_->channel);
}

SpareLink::~SpareLink() = default;

Result<std::optional<service::GridAssignment>> SpareLink::Ask(
    const service::GridSpare& spare) const {
  // As in GridLink: a call that fails at once is too short for a handshake.
  state_->channel->WaitForConnected(std::chrono::system_clock::now() + kSpareConnectTime);
  grpc::ClientContext call;
  call.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                 gpr_time_from_millis(kAskTime.count(), GPR_TIMESPAN)));
  if (!state_->key.empty()) call.AddMetadata(kAuthorization, "Bearer " + state_->key);
  v1::AssignRequest request;
  request.set_spare(spare.name);
  request.set_failed(spare.failed);
  request.set_leaving(spare.leaving);
  v1::AssignResponse response;
  PERGOLA_RETURN_IF_ERROR(FromGrpcStatus(state_->stub->Assign(&call, request, &response)));
  if (!response.has_assignment()) return std::optional<service::GridAssignment>();
  return std::optional(Decode(response.assignment()));
}

}  // namespace pergola::rpc
