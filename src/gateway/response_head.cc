#include "gateway/response_head.h"

#include <array>
#include <ctime>

namespace pergola::gateway {
namespace {

void AppendClean(std::string_view text, std::string* out) {
  for (const char c : text) {
    const bool control = (c >= 0 && c < 0x20) || c == 0x7f;
    out->push_back(control ? ' ' : c);
  }
}

void AppendField(std::string_view name, std::string_view value, std::string* out) {
  AppendClean(name, out);
  *out += ": ";
  AppendClean(value, out);
  *out += "\r\n";
}

// IMF-fixdate; made once a second and thread.
std::string_view DateNow() {
  thread_local std::time_t made_at = 0;
  thread_local std::string made;
  const std::time_t now = std::time(nullptr);
  if (now == made_at && !made.empty()) return made;
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&now, &utc);
  const auto two = [](int number) {
    return std::string{static_cast<char>('0' + number / 10), static_cast<char>('0' + number % 10)};
  };
  made = std::string(kDays[utc.tm_wday]) + ", " + two(utc.tm_mday) + " " + kMonths[utc.tm_mon] +
         " " + std::to_string(utc.tm_year + 1900) + " " + two(utc.tm_hour) + ":" + two(utc.tm_min) +
         ":" + two(utc.tm_sec) + " GMT";
  made_at = now;
  return made;
}

void AppendFraming(const ResponseFrame& frame, std::string* out) {
  if (frame.framing == BodyFraming::kLength) {
    AppendField("content-length", std::to_string(frame.length), out);
  } else if (frame.framing == BodyFraming::kChunked) {
    AppendField("transfer-encoding", "chunked", out);
  }
  if (!frame.keep_alive) {
    AppendField("connection", "close", out);
  } else if (frame.minor_version == 0) {
    AppendField("connection", "keep-alive", out);
  }
}

void AppendVary(const ResponseFrame& frame, std::string* out) {
  const bool by_origin = !frame.allow_origin.empty() && frame.allow_origin != "*";
  if (frame.varies_by_coding && by_origin) {
    AppendField("vary", "accept-encoding, origin", out);
  } else if (frame.varies_by_coding || by_origin) {
    AppendField("vary", by_origin ? "origin" : "accept-encoding", out);
  }
}

}  // namespace

std::string ResponseHead(const HttpResponse& response, const ResponseFrame& frame) {
  std::string out;
  out.reserve(512);
  out += "HTTP/1.1 ";
  out += std::to_string(response.status);
  out += ' ';
  out += ReasonPhrase(response.status);
  out += "\r\n";
  AppendField("date", DateNow(), &out);
  AppendField("server", "pergola/" PERGOLA_VERSION, &out);
  if (!response.content_type.empty() && frame.framing != BodyFraming::kNone) {
    AppendField("content-type", response.content_type, &out);
  }
  AppendFraming(frame, &out);
  AppendField("x-request-id", frame.request_id, &out);
  AppendField("x-content-type-options", "nosniff", &out);
  if (frame.gzip) AppendField("content-encoding", "gzip", &out);
  AppendVary(frame, &out);
  if (!frame.allow_origin.empty()) {
    AppendField("access-control-allow-origin", frame.allow_origin, &out);
    AppendField("access-control-expose-headers", "x-request-id, x-truncated, retry-after", &out);
  }
  for (const HttpHeader& header : response.headers) AppendField(header.name, header.value, &out);
  out += "\r\n";
  return out;
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 424:
      return "Failed Dependency";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

}  // namespace pergola::gateway
