#include "gateway/failure.h"

#include "gateway/json_writer.h"

namespace pergola::gateway {
namespace {

std::string_view OpenAiType(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    default:
      return http_status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string_view TeiType(int http_status) {
  switch (http_status) {
    case 401:
      return "Unauthorized";
    case 429:
      return "Overloaded";
    case 503:
      return "Unhealthy";
    default:
      return http_status >= 500 ? "Backend" : "Validation";
  }
}

std::string_view SplitCode(int http_status) {
  switch (http_status) {
    case 401:
      return "unauthenticated";
    case 404:
      return "not_found";
    case 429:
      return "resource_exhausted";
    case 503:
      return "unavailable";
    case 504:
      return "deadline_exceeded";
    default:
      return http_status >= 500 ? "internal" : "invalid_argument";
  }
}

void AppendOrNull(std::string_view text, std::string* out) {
  if (text.empty()) {
    out->append("null");
  } else {
    AppendJsonString(text, out);
  }
}

}  // namespace

int HttpStatusOf(const Failure& failure, Envelope envelope) {
  switch (failure.status.code()) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kFailedPrecondition:
      return envelope == Envelope::kTei && !failure.empty ? 422 : 400;
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kPermissionDenied:
      return 403;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kCancelled:
      return 499;  // the client has gone; nobody reads it
    case StatusCode::kUnavailable:
      return 503;
    case StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string RenderErrorBody(Envelope envelope, const ErrorText& text) {
  constexpr size_t kMaxMessageBytes = 600;
  const std::string message = Excerpt(text.message, kMaxMessageBytes);
  std::string out;
  switch (envelope) {
    case Envelope::kOpenAi:
    case Envelope::kVoyage:
      out.append("{\"error\":{\"message\":");
      AppendJsonString(message, &out);
      out.append(",\"type\":");
      AppendJsonString(OpenAiType(text.http_status), &out);
      out.append(",\"param\":");
      AppendOrNull(text.param, &out);
      out.append(",\"code\":");
      AppendOrNull(text.code, &out);
      out.push_back('}');
      if (envelope == Envelope::kVoyage) {
        out.append(",\"detail\":");
        AppendJsonString(message, &out);
      }
      break;
    case Envelope::kPlain:
    case Envelope::kSplit:
    case Envelope::kTei:
      out.append("{\"error\":");
      AppendJsonString(message, &out);
      if (envelope == Envelope::kSplit) {
        out.append(",\"code\":");
        AppendJsonString(SplitCode(text.http_status), &out);
      } else if (envelope == Envelope::kTei) {
        out.append(",\"error_type\":");
        AppendJsonString(TeiType(text.http_status), &out);
      }
      break;
    case Envelope::kCohere2:
      out.append("{\"message\":");
      AppendJsonString(message, &out);
      break;
  }
  out.push_back('}');
  return out;
}

}  // namespace pergola::gateway
