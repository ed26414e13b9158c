#include "gateway/request_gate.h"

#include <algorithm>
#include <charconv>

#include "core/ascii.h"
#include "gateway/gzip.h"

namespace pergola::gateway {
namespace {

// "10 s", "50 ms"
std::string Spelled(std::chrono::milliseconds duration) {
  const int64_t count = duration.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

std::string_view MediaType(std::string_view content_type) {
  return Trimmed(content_type.substr(0, content_type.find(';')));
}

bool IsPreflight(const HttpHead& head) {
  return head.method == "OPTIONS" && head.header("access-control-request-method").has_value();
}

// OPTIONS: which methods the path has; for a browser also which headers it may send.
HttpResponse OptionsAnswer(const HttpHead& head, const GateDecision& decision) {
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  response.headers.push_back({"allow", decision.route.allow});
  if (IsPreflight(head) && !decision.allow_origin.empty()) {
    response.headers.push_back({"access-control-allow-methods", decision.route.allow});
    response.headers.push_back({"access-control-allow-headers",
                                "Authorization, Content-Type, X-Request-Id, X-Request-Timeout-Ms"});
    response.headers.push_back({"access-control-max-age", "600"});
  }
  return response;
}

}  // namespace

GateDecision RequestGate::Decide(const HttpHead& head) const {
  GateDecision decision;
  decision.timeout = options_.request_timeout;
  decision.allow_origin = AllowOrigin(head);
  decision.gzip_answer = AcceptsGzip(head.header("accept-encoding").value_or(""));
  decision.answer = Refusal(head, &decision);
  return decision;
}

HttpResponse RequestGate::Error(std::string_view path, int status, std::string_view message) const {
  HttpResponse response = handler_.RenderError(path, status, message);
  response.status = status;
  if (status == 401) response.headers.push_back({"www-authenticate", "Bearer"});
  if (status == 429 || status == 503) response.headers.push_back({"retry-after", "1"});
  return response;
}

HttpResponse RequestGate::BodyTooLarge(std::string_view path) const {
  return Error(path, 413,
               "the request body is over the limit of " + std::to_string(options_.max_body_bytes) +
                   " bytes");
}

HttpResponse RequestGate::HeadTooLarge() const {
  return Error("", 431,
               "the request header is over the limit of " +
                   std::to_string(options_.header_limit_bytes) + " bytes");
}

HttpResponse RequestGate::HeadTooSlow() const {
  return Error("", 408,
               "the request header was not complete within " + Spelled(options_.header_deadline));
}

HttpResponse RequestGate::BodyTooSlow(std::string_view path) const {
  return Error(path, 408,
               "the request body was not complete within " + Spelled(options_.body_deadline) +
                   " plus 1 s for each " + std::to_string(options_.body_bytes_per_second) +
                   " bytes received");
}

HttpResponse RequestGate::Stopping(std::string_view path) const {
  return Error(path, 503, "the server is stopping and the request was not complete; send it again");
}

std::optional<HttpResponse> RequestGate::Refusal(const HttpHead& head,
                                                 GateDecision* decision) const {
  if (head.path == "*") {
    decision->route.allow = "GET, HEAD, POST, OPTIONS";
    return OptionsAnswer(head, *decision);
  }
  decision->route = handler_.Check(head.method, head.path);
  if (!decision->route.path_known) {
    return Error(head.path, 404, "there is no route " + Printable(head.path));
  }
  if (!decision->route.method_allowed) {
    if (head.method == "OPTIONS") return OptionsAnswer(head, *decision);
    HttpResponse response = Error(head.path, 405,
                                  "method " + Printable(head.method) + " is not allowed for " +
                                      Printable(head.path) + "; allowed: " + decision->route.allow);
    response.headers.push_back({"allow", decision->route.allow});
    return response;
  }
  if (auto answer = CheckKey(head, decision)) return answer;
  if (auto answer = CheckContent(head, decision)) return answer;
  return CheckTimeout(head, decision);
}

std::optional<HttpResponse> RequestGate::CheckKey(const HttpHead& head,
                                                  GateDecision* decision) const {
  const bool open = !decision->route.needs_auth ||
                    (options_.open_metrics && head.path == "/metrics") ||
                    (options_.open_docs && (head.path == "/docs" || head.path == "/openapi.json"));
  if (keys_ == nullptr || open) return std::nullopt;
  const std::optional<std::string_view> given = head.header("authorization");
  // A proxy may have checked another one than the first.
  if (head.count("authorization") > 1) {
    return Error(head.path, 401, "there is more than one Authorization header");
  }
  if (given) decision->key = keys_->Find(*given);
  if (decision->key.number >= 0) return std::nullopt;
  return Error(
      head.path, 401,
      given ? "the API key is not valid" : "an API key is needed: Authorization: Bearer <key>");
}

std::optional<HttpResponse> RequestGate::CheckContent(const HttpHead& head,
                                                      GateDecision* decision) const {
  const std::optional<std::string_view> type = head.header("content-type");
  if (decision->route.takes_body && type && !Trimmed(*type).empty()) {
    const std::string_view media_type = MediaType(*type);
    const bool form = decision->route.form_content_type_ok &&
                      EqualsIgnoringCase(media_type, "application/x-www-form-urlencoded");
    // Exactly: a binary body read as something else would be garbage.
    const std::string& other = decision->route.other_media_type;
    const bool binary = !other.empty() && media_type == other;
    if (!form && !binary && !EqualsIgnoringCase(media_type, "application/json")) {
      return Error(
          head.path, 415,
          "Content-Type '" + Printable(*type) + "' is not understood here; send application/json");
    }
  }
  const std::string_view coding = head.header("content-encoding").value_or("");
  decision->gunzip = EqualsIgnoringCase(coding, "gzip") || EqualsIgnoringCase(coding, "x-gzip");
  if (!decision->gunzip && !coding.empty() && !EqualsIgnoringCase(coding, "identity")) {
    HttpResponse response =
        Error(head.path, 415,
              "Content-Encoding '" + Printable(coding) + "' is not understood; send gzip or none");
    response.headers.push_back({"accept-encoding", "gzip"});
    return response;
  }
  if (head.content_length.value_or(0) > static_cast<uint64_t>(options_.max_body_bytes)) {
    return BodyTooLarge(head.path);
  }
  return std::nullopt;
}

std::optional<HttpResponse> RequestGate::CheckTimeout(const HttpHead& head,
                                                      GateDecision* decision) const {
  const std::optional<std::string_view> given = head.header("x-request-timeout-ms");
  if (!given) return std::nullopt;
  constexpr int64_t kLongest = 24 * 3600 * 1000;
  int64_t count = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), count);
  const bool number = end == given->data() + given->size() && !given->empty();
  if (!number || (error != std::errc() && error != std::errc::result_out_of_range) ||
      (error == std::errc() && count < 1) || given->front() == '-') {
    return Error(
        head.path, 400,
        "x-request-timeout-ms '" + Printable(*given) + "' is not a number of milliseconds above 0");
  }
  if (error != std::errc()) count = kLongest;
  decision->timeout = std::chrono::milliseconds(std::min(count, kLongest));
  return std::nullopt;
}

std::string RequestGate::AllowOrigin(const HttpHead& head) const {
  const std::optional<std::string_view> origin = head.header("origin");
  if (!origin) return {};
  for (const std::string& allowed : options_.cors_origins) {
    if (allowed == "*") return "*";
    if (EqualsIgnoringCase(allowed, *origin)) return std::string(*origin);
  }
  return {};
}

}  // namespace pergola::gateway
