#include "gateway/routes.h"

#include <utility>

#include "core/check.h"
#include "gateway/answer_cache.h"
#include "gateway/describe.h"
#include "gateway/docs_page.h"
#include "gateway/embed_path.h"
#include "gateway/exchange.h"
#include "gateway/json_reader.h"
#include "gateway/json_writer.h"
#include "gateway/key_usage.h"
#include "gateway/openapi.h"
#include "gateway/readiness.h"
#include "gateway/request_trace.h"
#include "gateway/route_check.h"
#include "gateway/route_table.h"
#include "gateway/text_routes.h"
#include "gateway/work_pool.h"

namespace pergola::gateway {
namespace {

using ExchangePtr = std::shared_ptr<Exchange>;
using service::Clock;

std::string Milliseconds(std::chrono::nanoseconds duration) {
  std::string out;
  AppendJsonFixed(static_cast<double>(duration.count()) / 1e6, 3, &out);
  return out;
}

std::vector<HttpHeader> AnswerHeaders(const EmbedAnswer& answer,
                                      const service::InferenceOutput& output) {
  std::vector<HttpHeader> headers;
  if (answer.truncated > 0) headers.push_back({"x-truncated", std::to_string(answer.truncated)});
  if (answer.call.envelope == Envelope::kTei) {
    headers.push_back({"x-compute-type", "cpu"});
    headers.push_back({"x-compute-tokens", std::to_string(answer.tokens)});
    headers.push_back({"x-queue-time", Milliseconds(output.queue_time)});
    headers.push_back({"x-inference-time", Milliseconds(output.inference_time)});
    headers.push_back({"x-total-time", Milliseconds(answer.total_time)});
  }
  return headers;
}

Failure DeadlinePassed() {
  return {DeadlineExceededError("the deadline of the request passed before it was answered"), "",
          "", false};
}

void NoteInference(Exchange& exchange, Clock::time_point asked,
                   const service::InferenceOutput& output) {
  const auto& trace = exchange.request().trace;
  if (trace == nullptr) return;
  trace->Add(Stage::kQueue, asked, output.queue_time);
  trace->Add(Stage::kCompute, asked + output.queue_time, output.inference_time);
}

Failure KeyLimited(LimitRefusal refusal) {
  return {ResourceExhaustedError(std::move(refusal.message)), "", "rate_limit_exceeded", false,
          refusal.retry_after};
}

// Why nobody waits for the answer any more, if so.
MaybeFailure NobodyWaits(Exchange& exchange) {
  if (exchange.expired()) return DeadlinePassed();
  const auto& cancel = exchange.request().cancel;
  if (cancel == nullptr || !cancel->cancelled()) return std::nullopt;
  return Failure{CancelledError("the client has gone"), "", "", false};
}

}  // namespace

struct Routes::State {
  explicit State(RoutesOptions given)
      : options(std::move(given)),
        answers(options.answer_cache_bytes),
        readiness(&options.models),
        pool(options.num_workers) {
    if (options.metrics == nullptr) options.metrics = std::make_shared<Metrics>();
    openapi = DescribeOpenApi(options.version);
    docs = DocsPage();
  }

  void AnswerGet(const ExchangePtr& exchange);
  void AnswerPost(const ExchangePtr& exchange);
  // Answers a body as before, if it can.
  bool AnswerAgain(const ExchangePtr& exchange);
  // Counts a request's tokens; false: it is answered with its key's limit.
  bool TakeTokens(const ExchangePtr& exchange, int64_t tokens);
  void Run(const ExchangePtr& exchange);
  void Dispatch(const ExchangePtr& exchange, const JsonValue& body);
  void AnswerEmbed(const ExchangePtr& exchange, ParseEmbed parse, const JsonValue& body);
  void AnswerCohereV1(const ExchangePtr& exchange, const JsonValue& body);
  void AnswerShow(const ExchangePtr& exchange, const JsonValue& body);
  void Submit(const ExchangePtr& exchange, PreparedEmbed prepared);
  void Complete(const ExchangePtr& exchange, const ServedModel* model,
                std::shared_ptr<EmbedAnswer> answer, Result<service::InferenceOutput> output);

  RoutesOptions options;
  std::string openapi;
  std::string docs;
  AnswerCache answers;
  InFlight in_flight;
  Readiness readiness;
  DeadlineTimer timer;
  WorkPool pool;
};

void Routes::State::AnswerGet(const ExchangePtr& exchange) {
  HttpResponse response;
  switch (exchange->route()->action) {
    case Action::kReadyz:
      return readiness.Answer(exchange);
    case Action::kRoot:
      return exchange->SendJson(DescribeRoot(options));
    case Action::kHealthz:
      return exchange->SendJson("{\"status\":\"ok\"}");
    case Action::kModelList:
      return exchange->SendJson(DescribeModelList(options));
    case Action::kTags:
      return exchange->SendJson(DescribeTags(options));
    case Action::kRunning:
      return exchange->SendJson(DescribeRunning(options));
    case Action::kVersion:
      return exchange->SendJson(DescribeOllamaVersion());
    case Action::kInfo:
      return exchange->SendJson(DescribeInfo(options));
    case Action::kOpenApi:
      return exchange->SendJson(openapi);
    case Action::kModel: {
      const std::string_view id =
          std::string_view(exchange->request().path).substr(std::string_view("/v1/models/").size());
      const ServedModel* model = nullptr;
      if (MaybeFailure failure = ResolveModel(options, id, true, &model)) {
        return exchange->Fail(*failure);
      }
      return exchange->SendJson(DescribeModel(*model));
    }
    case Action::kMetrics:
      return exchange->Send(options.metrics->Response());
    case Action::kDocs:
      response.content_type = "text/html; charset=utf-8";
      response.body = docs;
      return exchange->Send(std::move(response));
    default:
      return exchange->Fail({InternalError("the route has no answer"), "", "", false});
  }
}

void Routes::State::AnswerPost(const ExchangePtr& exchange) {
  HttpRequest& request = exchange->request();
  if (request.deadline == Clock::time_point::max()) {
    exchange->StartDeadline(request.received + options.default_timeout, DeadlinePassed());
  }
  if (const auto& key = request.key_usage) {
    if (std::optional<LimitRefusal> refusal = key->Begin(Clock::now())) {
      options.metrics->CountLimited(refusal->limit);
      return exchange->Fail(KeyLimited(std::move(*refusal)));
    }
    exchange->HoldKey(key);
  }
  if (AnswerAgain(exchange)) return;
  const bool is_small = request.body.size() <= static_cast<size_t>(options.inline_body_bytes);
  if (is_small || request.may_block) {
    return Run(exchange);
  }
  pool.Post([this, exchange] { Run(exchange); });
}

bool Routes::State::AnswerAgain(const ExchangePtr& exchange) {
  const std::string& body = exchange->request().body;
  const auto known = answers.Get(exchange->route(), body);
  if (known == nullptr) {
    if (answers.ComesAgain(exchange->route(), body)) exchange->set_repeated_body(body);
    return false;
  }
  exchange->set_envelope(known->call.envelope);
  if (!TakeTokens(exchange, known->tokens)) return true;
  const auto inputs = static_cast<int64_t>(known->sequences);
  options.metrics->CountTokens(known->tokens, inputs, known->truncated, inputs);
  options.metrics->CountRepeated();
  known->served->service->NoteUse(known->call.keep_alive);
  if (const auto& trace = exchange->request().trace) trace->set_tokens(known->tokens);
  auto answer = std::make_shared<EmbedAnswer>(*known);
  answer->id = MakeAnswerId();
  answer->total_time = Clock::now() - exchange->request().received;
  answer->load_time = {};
  std::vector<HttpHeader> headers = AnswerHeaders(*answer, {});
  const RenderEmbed render = answer->call.render;
  exchange->SendParts(render(std::move(answer)), std::move(headers));
  return true;
}

bool Routes::State::TakeTokens(const ExchangePtr& exchange, int64_t tokens) {
  const auto& usage = exchange->request().key_usage;
  if (usage == nullptr) return true;
  std::optional<LimitRefusal> refusal = usage->TakeTokens(tokens, Clock::now());
  if (!refusal) return true;
  options.metrics->CountLimited(refusal->limit);
  exchange->Fail(KeyLimited(std::move(*refusal)));
  return false;
}

// The part of a request that works: parsing, tokenising.
void Routes::State::Run(const ExchangePtr& exchange) {
  exchange->NoteWork();
  if (const MaybeFailure failure = NobodyWaits(*exchange)) return exchange->Fail(*failure);
  Result<std::unique_ptr<JsonDocument>> document =
      JsonDocument::Parse(std::move(exchange->request().body));
  if (!document.ok()) return exchange->Fail({document.status(), "", "", false});
  Dispatch(exchange, (*document)->root());
}

void Routes::State::Dispatch(const ExchangePtr& exchange, const JsonValue& body) {
  switch (exchange->route()->action) {
    case Action::kEmbed:
      return AnswerEmbed(exchange, exchange->route()->parse, body);
    case Action::kCohereV1Embed:
      return AnswerCohereV1(exchange, body);
    case Action::kShow:
      return AnswerShow(exchange, body);
    case Action::kTokenize: {
      AnswerParts parts;
      if (MaybeFailure failure = Tokenize(
              options, body, [&] { return NobodyWaits(*exchange); }, &parts)) {
        return exchange->Fail(*failure);
      }
      return exchange->SendParts(std::move(parts));
    }
    case Action::kDecode: {
      std::string answer;
      if (MaybeFailure failure = Decode(options, body, &answer)) return exchange->Fail(*failure);
      return exchange->SendJson(std::move(answer));
    }
    default:
      return exchange->Fail({InternalError("the route has no answer"), "", "", false});
  }
}

void Routes::State::AnswerEmbed(const ExchangePtr& exchange, ParseEmbed parse,
                                const JsonValue& body) {
  EmbedCall call;
  call.envelope = exchange->envelope();
  MaybeFailure failure = parse(body, {options.max_batch_inputs}, &call);
  exchange->set_envelope(call.envelope);
  PreparedEmbed prepared;
  const GivenUp given_up = [&] { return NobodyWaits(*exchange); };
  if (!failure) failure = PrepareEmbed(options, std::move(call), given_up, &prepared);
  if (failure) return exchange->Fail(*failure);
  Submit(exchange, std::move(prepared));
}

// The path is shared with the split tier, which this server does not run: only a body with texts is
// Cohere's.
void Routes::State::AnswerCohereV1(const ExchangePtr& exchange, const JsonValue& body) {
  const bool is_cohere =
      body.is(JsonKind::kObject) && Fields(body, {"texts"}).Get("texts").has_value();
  if (!is_cohere) {
    return exchange->Fail(Failure::Invalid(
        "texts", "texts is missing; this server has no split tier, which takes other bodies here"));
  }
  AnswerEmbed(exchange, ParseCohereV1Embed, body);
}

void Routes::State::AnswerShow(const ExchangePtr& exchange, const JsonValue& body) {
  Fields fields(body, {"model", "name"});
  const std::optional<std::string> model_name =
      fields.failure() ? std::nullopt : fields.String(fields.Has("model") ? "model" : "name");
  if (!model_name) fields.Fail("model", "model is missing");
  MaybeFailure failure = fields.failure();
  const ServedModel* model = nullptr;
  if (!failure) failure = ResolveModel(options, *model_name, false, &model);
  if (failure) return exchange->Fail(*failure);
  exchange->SendJson(DescribeShow(*model));
}

void Routes::State::Submit(const ExchangePtr& exchange, PreparedEmbed prepared) {
  if (exchange->expired()) return exchange->Fail(DeadlinePassed());
  if (!TakeTokens(exchange, prepared.answer->tokens)) return;
  prepared.request.deadline = exchange->deadline();
  const int key = exchange->request().api_key;
  if (key >= 0) prepared.request.tenant = std::to_string(key);
  prepared.request.cancel = exchange->request().cancel;
  prepared.request.may_block = exchange->request().may_block;
  const Clock::time_point asked = Clock::now();
  if (const auto& trace = exchange->request().trace) {
    trace->Add(Stage::kTokenise, exchange->work_began(), asked - exchange->work_began());
    trace->set_tokens(prepared.answer->tokens);
    prepared.request.trace = trace->context();
  }
  service::InferenceService& service = *prepared.model->service;
  service.Submit(std::move(prepared.request),
                 [this, exchange, asked, model = prepared.model,
                  answer = std::move(prepared.answer)](Result<service::InferenceOutput> output) {
                   if (output.ok()) NoteInference(*exchange, asked, *output);
                   Complete(exchange, model, answer, std::move(output));
                 });
}

// On a thread of the service, which must not be held up: large answers are rendered on the pool.
void Routes::State::Complete(const ExchangePtr& exchange, const ServedModel* model,
                             std::shared_ptr<EmbedAnswer> answer,
                             Result<service::InferenceOutput> output) {
  if (!output.ok()) return exchange->Fail({output.status(), "", "", false});
  const auto inputs = static_cast<int64_t>(output->sequences.size());
  if (output->cache_hits < inputs) readiness.Note(model);
  if (exchange->expired()) return exchange->Fail(DeadlinePassed());
  options.metrics->CountTokens(answer->tokens, inputs, answer->truncated, output->cache_hits);
  int64_t values = 0;
  for (const auto& sequence : output->sequences) {
    values += sequence == nullptr ? 0 : static_cast<int64_t>(sequence->values());
  }
  // Of somebody else's, who has since taken the model's place or only passed by, nothing is kept.
  const std::string& identity = answer->served->info.rows_identity;
  const bool kept = !identity.empty() && output->rows_identity == identity;
  auto render = [this, exchange, kept, answer = std::move(answer),
                 output = std::move(*output)]() mutable {
    answer->total_time = Clock::now() - exchange->request().received;
    answer->load_time = output.load_time;
    std::vector<HttpHeader> headers = AnswerHeaders(*answer, output);
    if (const Status status = TakeRows(std::move(output), answer.get()); !status.ok()) {
      return exchange->Fail({status, "", "", false});
    }
    std::string body = exchange->take_repeated_body();
    if (kept && !body.empty() && AnswerCache::IsKept(*answer)) {
      answers.Put(exchange->route(), std::move(body), answer.get());
    }
    const RenderEmbed render_embed = answer->call.render;
    exchange->SendParts(render_embed(std::move(answer)), std::move(headers));
  };
  if (values <= options.inline_answer_values) return render();
  pool.Post(std::move(render));
}

Routes::Routes(RoutesOptions options) {
  PERGOLA_CHECK(!options.models.empty());
  state_ = std::make_unique<State>(std::move(options));
}

Routes::~Routes() { state_->in_flight.WaitForNone(); }

Metrics& Routes::metrics() { return *state_->options.metrics; }

bool Routes::idle() const { return state_->in_flight.none(); }

HttpHandler::RouteCheck Routes::Check(std::string_view method, std::string_view path) const {
  return CheckRoute(method, path, {state_->options.open_metrics, state_->options.open_docs});
}

HttpResponse Routes::RenderError(std::string_view path, int status,
                                 std::string_view message) const {
  return RenderRouteError(path, status, message);
}

void Routes::Handle(HttpRequest request, HttpRespond respond) {
  const Route* route = FindRoute(request.method, request.path);
  if (route == nullptr) {
    const std::string allowed = AllowedMethods(request.path);
    const std::string named = Excerpt(request.path);
    HttpResponse response = allowed.empty()
                                ? RenderError(request.path, 404, "there is no route " + named)
                                : RenderError(request.path, 405, named + " takes " + allowed);
    if (!allowed.empty()) response.headers.push_back({"allow", allowed});
    respond(std::move(response));
    return;
  }
  const Exchange::Parts parts{&state_->in_flight, &state_->timer};
  const auto exchange =
      std::make_shared<Exchange>(parts, std::move(request), std::move(respond), route);
  if (route->takes_body()) {
    state_->AnswerPost(exchange);
  } else {
    state_->AnswerGet(exchange);
  }
}

}  // namespace pergola::gateway
