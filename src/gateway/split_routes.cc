#include "gateway/split_routes.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gateway/failure.h"
#include "gateway/fields.h"
#include "gateway/json_reader.h"
#include "gateway/json_writer.h"
#include "gateway/route_check.h"

namespace pergola::gateway {
namespace {

using service::SplitService;
using Query = std::map<std::string, std::string, std::less<>>;

constexpr std::string_view kRowPath = "/v1/embed/";
constexpr int64_t kMaxAnswerBytes = int64_t{64} << 20;
// What one token of an answer's top_k takes in JSON, about.
constexpr int64_t kTopTokenBytes = 64;
constexpr int kWorkers = 8;  // who wait for logits at the same time get them in one pass

struct SplitRoute {
  std::string_view path;
  bool get;
  bool post;
  bool binary;
};
constexpr SplitRoute kRoutes[] = {
    {"/healthz", true, false, false},        {"/v1/stats", true, false, false},
    {"/v1/embed", false, true, true},        {"/v1/logits", false, true, true},
    {"/v1/token/encode", true, true, false}, {"/v1/token/decode", true, true, false},
    {kRowPath, true, false, false},
};

const SplitRoute* FindSplitRoute(std::string_view path) {
  for (const SplitRoute& route : kRoutes) {
    const bool rest = route.path == kRowPath && path.starts_with(kRowPath) && path != kRowPath;
    if (rest || (route.path == path && route.path != kRowPath)) return &route;
  }
  return nullptr;
}

int HexDigit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  const char lower = static_cast<char>(letter | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

Query ParseQuery(std::string_view text) {
  Query query;
  std::string part[2];
  int side = 0;
  const auto flush = [&] {
    if (!part[0].empty()) query.emplace(part[0], part[1]);
    part[0].clear();
    part[1].clear();
    side = 0;
  };
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&') {
      flush();
    } else if (text[at] == '=' && side == 0) {
      side = 1;
    } else if (text[at] == '%' && at + 2 < text.size() && HexDigit(text[at + 1]) >= 0 &&
               HexDigit(text[at + 2]) >= 0) {
      part[side] += static_cast<char>(HexDigit(text[at + 1]) * 16 + HexDigit(text[at + 2]));
      at += 2;
    } else {
      part[side] += text[at] == '+' ? ' ' : text[at];
    }
  }
  flush();
  return query;
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

bool IsBinary(const HttpRequest& request, std::string_view header) {
  return request.header(header) == kSplitMediaType;
}

// One request as the routes read it.
class Call {
 public:
  Call(SplitService& service, const HttpRequest& request, bool private_answers)
      : service_(service),
        request_(request),
        private_(private_answers),
        query_(ParseQuery(request.query)),
        waiting_{request.deadline, request.cancel.get()} {}

  Status Answer(HttpResponse* response) {
    const std::string& path = request_.path;
    if (path == "/v1/stats") return Json(service_.StatsJson(), response);
    if (path == "/v1/embed") return Embed(response);
    if (path == "/v1/logits") return Logits(response);
    if (path == "/v1/token/encode") return Encode(response);
    if (path == "/v1/token/decode") return Decode(response);
    return Row(response);
  }

 private:
  static Status Json(std::string body, HttpResponse* response) {
    response->body = std::move(body);
    return OkStatus();
  }
  void Binary(HttpResponse* response) const {
    response->content_type = std::string(kSplitMediaType);
  }
  // The form of the answer: Accept, else the request's.
  bool AnswersBinary() const {
    const auto accept = request_.header("accept");
    if (accept && *accept == kSplitMediaType) return true;
    if (accept && *accept == "application/json") return false;
    return IsBinary(request_, "content-type");
  }

  Status ParseBody(std::unique_ptr<JsonDocument>* document) const {
    PERGOLA_ASSIGN_OR_RETURN(*document, JsonDocument::Parse(request_.body));
    if ((*document)->root().is(JsonKind::kObject)) return OkStatus();
    return InvalidArgumentError("the body must be a JSON object");
  }
  static Status ReadIds(const std::optional<JsonValue>& list, std::string_view name,
                        std::vector<int32_t>* ids) {
    if (!list || !list->is(JsonKind::kArray) || list->size() == 0) {
      return InvalidArgumentError(std::string(name) + " must be a list of token ids");
    }
    bool right = true;
    list->EachItem([&](size_t, JsonValue item) {
      right = item.is(JsonKind::kInteger) && item.integer() >= 0 && item.integer() <= INT32_MAX;
      if (right) ids->push_back(static_cast<int32_t>(item.integer()));
      return right;
    });
    return right ? OkStatus()
                 : InvalidArgumentError(std::string(name) + " holds what is no token id");
  }

  Status Embed(HttpResponse* response);
  Status Row(HttpResponse* response);
  Status Logits(HttpResponse* response);
  Status ReadResiduals(std::vector<float>* residuals);
  Status ReadJsonResiduals(std::vector<float>* residuals);
  Status ReadNumbers(std::optional<JsonValue> top_k, std::optional<JsonValue> temperature);
  Status Encode(HttpResponse* response);
  Status Decode(HttpResponse* response);
  void AppendTop(const std::vector<service::TokenChance>& tokens, std::string* out) const;

  SplitService& service_;
  const HttpRequest& request_;
  bool private_;
  Query query_;
  const service::SplitCall waiting_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t top_k_ = 5;
  float temperature_ = 1;
  bool logprobs_ = false;
  bool nested_ = false;  // residuals came as a list of lists
};

std::string LatencyField(std::chrono::steady_clock::time_point start) {
  std::string out = ",\"latency_ms\":";
  AppendJsonFixed(
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(),
      3, &out);
  return out;
}

Status Call::Embed(HttpResponse* response) {
  std::vector<int32_t> ids;
  if (IsBinary(request_, "content-type")) {
    uint32_t count = 0;
    const std::string& body = request_.body;
    if (body.size() >= sizeof count) std::memcpy(&count, body.data(), sizeof count);
    if (count == 0 || body.size() != (uint64_t{count} + 1) * 4) {
      return InvalidArgumentError("the body has " + std::to_string(body.size()) +
                                  " bytes, expected a count and as many ids");
    }
    ids.resize(count);
    std::memcpy(ids.data(), body.data() + 4, uint64_t{count} * 4);
  } else {
    std::unique_ptr<JsonDocument> document;
    PERGOLA_RETURN_IF_ERROR(ParseBody(&document));
    Fields fields(document->root(), {"token_ids", "seq_len"});
    PERGOLA_RETURN_IF_ERROR(ReadIds(fields.Get("token_ids"), "token_ids", &ids));
    const auto length = fields.Integer("seq_len");
    if (fields.failure()) return fields.failure()->status;
    if (length && *length != static_cast<int64_t>(ids.size())) {
      return InvalidArgumentError("seq_len is " + std::to_string(*length) + ", there are " +
                                  std::to_string(ids.size()) + " token_ids");
    }
  }
  const auto width = static_cast<size_t>(service_.hidden_size());
  if (static_cast<int64_t>(ids.size() * width * sizeof(float)) > kMaxAnswerBytes) {
    return InvalidArgumentError(std::to_string(ids.size()) + " rows are more than an answer holds");
  }
  if (AnswersBinary()) {
    // Decoded where they are sent from: a copy would take as long as the rows.
    const uint32_t sizes[2] = {static_cast<uint32_t>(ids.size()), static_cast<uint32_t>(width)};
    std::string body(sizeof sizes + ids.size() * width * sizeof(float), '\0');
    std::memcpy(body.data(), sizes, sizeof sizes);
    auto* const values = reinterpret_cast<float*>(body.data() + sizeof sizes);
    PERGOLA_RETURN_IF_ERROR(
        service_.EmbedRows(waiting_, ids, std::span(values, ids.size() * width)));
    Binary(response);
    response->body = std::move(body);
    return OkStatus();
  }
  std::vector<float> rows(ids.size() * width);
  PERGOLA_RETURN_IF_ERROR(service_.EmbedRows(waiting_, ids, rows));
  std::string out = "{\"residual\":[";
  for (size_t row = 0; row < ids.size(); ++row) {
    if (row > 0) out += ',';
    AppendJsonFloats(std::span(rows).subspan(row * width, width), &out);
  }
  out += "],\"seq_len\":" + std::to_string(ids.size()) +
         ",\"hidden_size\":" + std::to_string(width) + LatencyField(start_) + "}";
  return Json(std::move(out), response);
}

Status Call::Row(HttpResponse* response) {
  const std::string_view text = std::string_view(request_.path).substr(kRowPath.size());
  const auto id = ParseInteger(text);
  if (!id || *id < 0 || *id > INT32_MAX) {
    return InvalidArgumentError("'" + Excerpt(text) + "' is no token id");
  }
  const auto token = static_cast<int32_t>(*id);
  std::vector<float> row(static_cast<size_t>(service_.hidden_size()));
  PERGOLA_RETURN_IF_ERROR(service_.EmbedRows(waiting_, std::span(&token, 1), row));
  const bool json = request_.header("accept") == "application/json";
  // The two forms are different things to a cache.
  const std::string tag =
      "\"" + service_.model_identity().substr(0, 32) + (json ? "-json" : "") + "\"";
  const auto version = query_.find("v");
  const bool pinned = version != query_.end() && version->second == service_.model_identity();
  response->headers.push_back({"etag", tag});
  response->headers.push_back({"vary", "Accept"});
  response->headers.push_back(
      {"cache-control", std::string(private_ ? "private" : "public") +
                            (pinned ? ", max-age=31536000, immutable" : ", no-cache")});
  if (const auto known = request_.header("if-none-match");
      known && (*known == "*" || known->find(tag) != std::string_view::npos)) {
    response->status = 304;
    return OkStatus();
  }
  if (!json) {
    Binary(response);
    response->body.assign(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
    return OkStatus();
  }
  std::string out = "{\"token_id\":" + std::to_string(token) + ",\"embedding\":";
  AppendJsonFloats(row, &out);
  return Json(out + ",\"hidden_size\":" + std::to_string(row.size()) + "}", response);
}

double NumberOf(const JsonValue& value) {
  return value.is(JsonKind::kInteger) ? static_cast<double>(value.integer()) : value.number();
}

Status Call::ReadNumbers(std::optional<JsonValue> top_k, std::optional<JsonValue> temperature) {
  if (top_k) {
    if (!top_k->is(JsonKind::kInteger)) return InvalidArgumentError("top_k must be an integer");
    top_k_ = top_k->integer();
  }
  if (temperature) {
    const bool number = temperature->is(JsonKind::kInteger) || temperature->is(JsonKind::kNumber);
    if (!number) return InvalidArgumentError("temperature must be a number");
    temperature_ = static_cast<float>(NumberOf(*temperature));
  }
  return OkStatus();
}

Status Call::ReadJsonResiduals(std::vector<float>* residuals) {
  std::unique_ptr<JsonDocument> document;
  PERGOLA_RETURN_IF_ERROR(ParseBody(&document));
  Fields fields(document->root(), {"residual", "top_k", "temperature", "logprobs"});
  PERGOLA_RETURN_IF_ERROR(ReadNumbers(fields.Get("top_k"), fields.Get("temperature")));
  logprobs_ = fields.Bool("logprobs").value_or(false);
  const auto list = fields.Get("residual");
  if (fields.failure()) return fields.failure()->status;
  if (!list || !list->is(JsonKind::kArray) || list->size() == 0) {
    return InvalidArgumentError("residual must be a list of numbers or of such lists");
  }
  Status status;
  const auto read_row = [&](const JsonValue& row) {
    if (row.size() != static_cast<size_t>(service_.hidden_size())) {
      status = InvalidArgumentError("a residual has " + std::to_string(row.size()) +
                                    " values, the model's width is " +
                                    std::to_string(service_.hidden_size()));
      return;
    }
    row.EachItem([&](size_t, JsonValue item) {
      if (!item.is(JsonKind::kInteger) && !item.is(JsonKind::kNumber)) {
        status = InvalidArgumentError("residual holds what is no number");
        return false;
      }
      residuals->push_back(static_cast<float>(NumberOf(item)));
      return true;
    });
  };
  list->EachItem([&](size_t, JsonValue item) {
    nested_ = item.is(JsonKind::kArray);
    return false;
  });
  if (!nested_) {
    read_row(*list);
    return status;
  }
  list->EachItem([&](size_t, JsonValue item) {
    if (item.is(JsonKind::kArray)) {
      read_row(item);
    } else {
      status = InvalidArgumentError("residual mixes numbers and lists");
    }
    return status.ok();
  });
  return status;
}

Status Call::ReadResiduals(std::vector<float>* residuals) {
  if (!IsBinary(request_, "content-type")) return ReadJsonResiduals(residuals);
  int64_t rows = 1;
  if (const auto given = request_.header("x-rows")) rows = ParseInteger(*given).value_or(0);
  const uint64_t bytes = request_.body.size();
  const uint64_t row_bytes = static_cast<uint64_t>(service_.hidden_size()) * sizeof(float);
  if (rows < 1 || bytes % row_bytes != 0 || bytes / row_bytes != static_cast<uint64_t>(rows)) {
    return InvalidArgumentError("the body has " + std::to_string(bytes) + " bytes, X-Rows says " +
                                std::to_string(rows) + " rows of " + std::to_string(row_bytes));
  }
  nested_ = rows > 1;
  residuals->resize(bytes / sizeof(float));
  std::memcpy(residuals->data(), request_.body.data(), bytes);
  if (const auto top_k = query_.find("top_k"); top_k != query_.end()) {
    top_k_ = ParseInteger(top_k->second).value_or(0);
  }
  if (const auto given = query_.find("temperature"); given != query_.end()) {
    const std::string& text = given->second;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), temperature_);
    if (end.ec != std::errc() || end.ptr != text.data() + text.size()) temperature_ = -1;
  }
  return OkStatus();
}

void Call::AppendTop(const std::vector<service::TokenChance>& tokens, std::string* out) const {
  *out += '[';
  for (const service::TokenChance& token : tokens) {
    if (out->back() != '[') *out += ',';
    *out += "{\"token_id\":" + std::to_string(token.id) + ",\"token\":";
    AppendJsonString(token.text, out);
    *out += ",\"prob\":";
    AppendJsonFloat(static_cast<float>(token.probability), out);
    if (logprobs_) {
      *out += ",\"logprob\":";
      AppendJsonFloat(static_cast<float>(std::log(std::max(token.probability, 1e-300))), out);
    }
    *out += '}';
  }
  *out += ']';
}

Status Call::Logits(HttpResponse* response) {
  std::vector<float> residuals;
  PERGOLA_RETURN_IF_ERROR(ReadResiduals(&residuals));
  for (const float value : residuals) {
    if (!std::isfinite(value)) return InvalidArgumentError("a residual is not finite");
  }
  if (top_k_ < 1 || top_k_ > service_.vocab_size()) {
    return InvalidArgumentError("top_k must be 1.." + std::to_string(service_.vocab_size()));
  }
  if (!(temperature_ >= 0) || !std::isfinite(temperature_)) {
    return InvalidArgumentError("temperature must be a number that is not negative");
  }
  const auto rows = static_cast<int64_t>(residuals.size()) / service_.hidden_size();
  if (rows * service_.vocab_size() * static_cast<int64_t>(sizeof(float)) > kMaxAnswerBytes) {
    return InvalidArgumentError(std::to_string(rows) + " rows are more than one request may have");
  }
  if (request_.header("accept") == kSplitMediaType) {
    std::vector<float> logits(static_cast<size_t>(rows * service_.vocab_size()));
    PERGOLA_RETURN_IF_ERROR(service_.ComputeLogits(waiting_, residuals, logits));
    Binary(response);
    response->body.assign(reinterpret_cast<const char*>(logits.data()),
                          logits.size() * sizeof(float));
    return OkStatus();
  }
  if (rows * top_k_ * kTopTokenBytes > kMaxAnswerBytes) {
    return InvalidArgumentError(std::to_string(top_k_) + " tokens for each of " +
                                std::to_string(rows) + " rows are more than one answer may have");
  }
  PERGOLA_ASSIGN_OR_RETURN(const auto tokens,
                           service_.TopTokens(waiting_, residuals, top_k_, temperature_));
  std::string out = "{\"top_k\":";
  if (nested_) out += '[';
  for (size_t row = 0; row < tokens.size(); ++row) {
    if (row > 0) out += ',';
    AppendTop(tokens[row], &out);
  }
  if (nested_) out += ']';
  return Json(out + LatencyField(start_) + "}", response);
}

void AppendIds(std::span<const int32_t> ids, std::string* out) {
  *out += "\"token_ids\":[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) *out += ',';
    AppendJsonInteger(ids[i], out);
  }
  *out += ']';
}

Status Call::Encode(HttpResponse* response) {
  std::string text;
  bool special = false;
  if (request_.method == "POST") {
    std::unique_ptr<JsonDocument> document;
    PERGOLA_RETURN_IF_ERROR(ParseBody(&document));
    Fields fields(document->root(), {"text", "add_special_tokens"});
    const auto given = fields.String("text");
    special = fields.Bool("add_special_tokens").value_or(false);
    if (fields.failure()) return fields.failure()->status;
    if (!given) return InvalidArgumentError("text is missing");
    text = *given;
  } else {
    const auto given = query_.find("text");
    if (given == query_.end()) return InvalidArgumentError("?text= is missing");
    text = given->second;
  }
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                           service_.EncodeText(waiting_, text, special));
  std::string out = "{";
  AppendIds(ids, &out);
  out += ",\"text\":";
  AppendJsonString(text, &out);
  return Json(out + "}", response);
}

Status Call::Decode(HttpResponse* response) {
  std::vector<int32_t> ids;
  bool skip = false;
  if (request_.method == "POST") {
    std::unique_ptr<JsonDocument> document;
    PERGOLA_RETURN_IF_ERROR(ParseBody(&document));
    Fields fields(document->root(), {"ids", "skip_special_tokens"});
    PERGOLA_RETURN_IF_ERROR(ReadIds(fields.Get("ids"), "ids", &ids));
    skip = fields.Bool("skip_special_tokens").value_or(false);
    if (fields.failure()) return fields.failure()->status;
  } else {
    const auto given = query_.find("ids");
    std::string_view rest = given == query_.end() ? std::string_view() : given->second;
    if (rest.empty()) return InvalidArgumentError("?ids= is missing");
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const auto id = ParseInteger(rest.substr(0, comma));
      if (!id || *id < 0 || *id > INT32_MAX) return InvalidArgumentError("ids holds no token id");
      ids.push_back(static_cast<int32_t>(*id));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  PERGOLA_ASSIGN_OR_RETURN(const std::string text, service_.DecodeIds(waiting_, ids, skip));
  std::string out = "{\"text\":";
  AppendJsonString(text, &out);
  out += ',';
  AppendIds(ids, &out);
  return Json(out + "}", response);
}

}  // namespace

SplitRoutes::SplitRoutes(std::shared_ptr<service::SplitService> service, bool private_answers)
    : service_(std::move(service)), private_answers_(private_answers), pool_(kWorkers) {}

HttpHandler::RouteCheck SplitRoutes::Check(std::string_view method, std::string_view path) const {
  RouteCheck check;
  const SplitRoute* route = FindSplitRoute(path);
  if (route == nullptr) return check;
  check.path_known = true;
  check.allow = route->get && route->post ? "GET, HEAD, POST" : route->get ? "GET, HEAD" : "POST";
  check.method_allowed =
      (route->get && (method == "GET" || method == "HEAD")) || (route->post && method == "POST");
  check.needs_auth = path != "/healthz";
  check.takes_body = route->post && method == "POST";
  if (route->binary) check.other_media_type = std::string(kSplitMediaType);
  check.route = route->path == kRowPath ? "/v1/embed/{id}" : std::string(route->path);
  return check;
}

HttpResponse SplitRoutes::RenderError(std::string_view, int status,
                                      std::string_view message) const {
  return ErrorResponse(Envelope::kSplit, status, message);
}

void SplitRoutes::Handle(HttpRequest request, HttpRespond respond) {
  if (request.path == "/healthz") {
    HttpResponse response;
    response.body = "{\"status\":\"ok\"}";
    return respond(std::move(response));
  }
  pool_.Post([this, request = std::move(request), respond = std::move(respond)] {
    HttpResponse response;
    const Status status = Call(*service_, request, private_answers_).Answer(&response);
    if (!status.ok()) {
      const int code = HttpStatusOf({status, "", "", false}, Envelope::kSplit);
      response = RenderError(request.path, code, status.message());
    }
    respond(std::move(response));
  });
}

}  // namespace pergola::gateway
