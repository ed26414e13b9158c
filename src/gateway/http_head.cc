#include "gateway/http_head.h"

#include <algorithm>
#include <limits>

#include "core/ascii.h"

namespace pergola::gateway {
namespace {

constexpr int kMaxEmptyLines = 4;
constexpr size_t kMaxFields = 1000;
constexpr size_t kMaxQuotedBytes = 80;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

HttpError Bad(std::string message) { return {400, std::move(message)}; }

std::optional<HttpError> ParseVersion(std::string_view version, HttpHead* head) {
  if (version == "HTTP/1.1") {
    head->minor_version = 1;
  } else if (version == "HTTP/1.0") {
    head->minor_version = 0;
  } else if (version.size() == 8 && version.starts_with("HTTP/") && IsDigit(version[5]) &&
             version[6] == '.' && IsDigit(version[7])) {
    return HttpError{505, std::string(version) + " is not spoken here; HTTP/1.1 and HTTP/1.0 are"};
  } else {
    return Bad("the request line does not end with an HTTP version: '" + Printable(version) + "'");
  }
  return std::nullopt;
}

std::optional<HttpError> ParseTarget(HttpHead* head) {
  std::string_view target = head->target;
  const bool plain = std::all_of(target.begin(), target.end(),
                                 [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
  if (!plain) {
    return Bad("the request target holds a byte that is not allowed: '" + Printable(target) + "'");
  }
  if (target == "*" && head->method == "OPTIONS") {
    head->path = "*";
    return std::nullopt;
  }
  if (!target.starts_with('/')) {
    const size_t colon = target.find("://");
    const std::string_view scheme = target.substr(0, colon);
    if (colon == std::string_view::npos ||
        !(EqualsIgnoringCase(scheme, "http") || EqualsIgnoringCase(scheme, "https"))) {
      return Bad("the request target is neither a path nor an http URL: '" + Printable(target) +
                 "'");
    }
    target.remove_prefix(colon + 3);
    target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
  }
  const size_t mark = target.find('?');
  if (mark != std::string_view::npos) head->query = target.substr(mark + 1);
  std::optional<std::string> path = PercentDecode(target.substr(0, mark));
  if (!path) return Bad("the path holds a bad percent escape: '" + Printable(target) + "'");
  head->path = path->empty() ? "/" : std::move(*path);
  return std::nullopt;
}

std::optional<HttpError> ParseRequestLine(std::string_view line, HttpHead* head) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || line.find(' ', first + 1) != last) {
    return Bad("the request line is not 'METHOD target HTTP/1.1': '" + Printable(line) + "'");
  }
  const std::string_view method = line.substr(0, first);
  if (!IsToken(method)) return Bad("'" + Printable(method) + "' is not a method");
  head->method = method;
  head->target = line.substr(first + 1, last - first - 1);
  if (head->target.empty()) return Bad("the request target is empty");
  if (auto error = ParseVersion(line.substr(last + 1), head)) return error;
  return ParseTarget(head);
}

std::optional<HttpError> ParseField(std::string_view line, HttpHead* head) {
  if (line.front() == ' ' || line.front() == '\t') {
    return Bad("a header line is folded (begins with white space)");
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) {
    return Bad("a header line has no colon: '" + Printable(line) + "'");
  }
  const std::string_view name = line.substr(0, colon);
  if (!IsToken(name)) return Bad("'" + Printable(name) + "' is not a header name");
  head->headers.push_back({LowerCase(name), std::string(Trimmed(line.substr(colon + 1)))});
  return std::nullopt;
}

std::optional<HttpError> CheckHost(const HttpHead& head) {
  const size_t hosts = head.count("host");
  if (hosts > 1) return Bad("there is more than one Host header");
  if (hosts == 0) {
    if (head.minor_version == 0) return std::nullopt;
    return Bad("the Host header is missing");
  }
  const std::string_view host = *head.header("host");
  const bool plain = std::all_of(host.begin(), host.end(), [](char c) {
    return c > 0x20 && c < 0x7f &&
           std::string_view("/\\@?#,;\"<>{}|^`").find(c) == std::string_view::npos;
  });
  if (!plain) return Bad("the Host header is not a host: '" + Printable(host) + "'");
  return std::nullopt;
}

std::optional<HttpError> ParseContentLength(HttpHead* head) {
  const std::string_view digits = *head->header("content-length");
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), IsDigit)) {
    return Bad("the Content-Length header is not a number: '" + Printable(digits) + "'");
  }
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  uint64_t length = 0;
  for (const char c : digits) {
    const uint64_t digit = static_cast<uint64_t>(c - '0');
    length = length > (kMax - digit) / 10 ? kMax : length * 10 + digit;
  }
  head->content_length = length;
  return std::nullopt;
}

std::optional<HttpError> ParseFraming(HttpHead* head) {
  const size_t lengths = head->count("content-length");
  const size_t codings = head->count("transfer-encoding");
  if (lengths > 1) return Bad("there is more than one Content-Length header");
  if (codings > 1) return Bad("there is more than one Transfer-Encoding header");
  if (lengths > 0 && codings > 0) {
    return Bad("there are both a Content-Length and a Transfer-Encoding header");
  }
  if (codings > 0) {
    const std::string_view coding = *head->header("transfer-encoding");
    if (!EqualsIgnoringCase(coding, "chunked")) {
      return Bad("Transfer-Encoding '" + Printable(coding) +
                 "' is not understood; only 'chunked' is");
    }
    if (head->minor_version == 0) return Bad("Transfer-Encoding is not part of HTTP/1.0");
    head->chunked = true;
  }
  if (lengths > 0) return ParseContentLength(head);
  return std::nullopt;
}

void ParseConnection(HttpHead* head) {
  bool close = false;
  bool keep = false;
  for (const HttpHeader& header : head->headers) {
    if (header.name != "connection") continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view option = Trimmed(rest.substr(0, comma));
      close |= EqualsIgnoringCase(option, "close");
      keep |= EqualsIgnoringCase(option, "keep-alive");
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  head->keep_alive = !close && (head->minor_version == 1 || keep);
}

std::optional<HttpError> ParseExpect(HttpHead* head) {
  const std::optional<std::string_view> expect = head->header("expect");
  if (!expect || head->minor_version == 0) return std::nullopt;
  if (!EqualsIgnoringCase(*expect, "100-continue")) {
    return HttpError{417, "the expectation '" + Printable(*expect) + "' is not understood"};
  }
  head->expect_continue = true;
  return std::nullopt;
}

}  // namespace

HeadScanner::State HeadScanner::Fail(std::string message) {
  error_ = std::move(message);
  return State::kBad;
}

HeadScanner::State HeadScanner::Scan(std::string_view buffer) {
  for (; position_ < buffer.size(); ++position_) {
    const char c = buffer[position_];
    if (c == '\n') {
      if (!after_cr_) return Fail("a line of the head ends with LF alone instead of CR LF");
      after_cr_ = false;
      const size_t next = position_ + 1;
      if (next - line_begin_ > 2) {
        line_begin_ = next;
      } else if (line_begin_ > begin_) {
        end_ = next;
        return State::kComplete;
      } else if (++empty_lines_ > kMaxEmptyLines) {
        return Fail("there are empty lines where a request is expected");
      } else {
        begin_ = line_begin_ = next;
      }
      continue;
    }
    if (after_cr_) return Fail("there is a CR without LF in the head");
    if (c == '\r') {
      after_cr_ = true;
    } else if ((c >= 0 && c < 0x20 && c != '\t') || c == 0x7f) {
      return Fail("there is a control byte in the head; this port speaks HTTP/1.1");
    } else if (position_ == begin_ && !IsTokenChar(c)) {
      return Fail("the request does not begin with a method; this port speaks HTTP/1.1");
    }
  }
  return State::kMore;
}

std::optional<std::string_view> HttpHead::header(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (header.name == name) return header.value;
  }
  return std::nullopt;
}

size_t HttpHead::count(std::string_view name) const {
  return static_cast<size_t>(std::count_if(
      headers.begin(), headers.end(), [&](const auto& header) { return header.name == name; }));
}

std::optional<HttpError> ParseHead(std::string_view bytes, HttpHead* head) {
  HeadScanner scanner;
  if (scanner.Scan(bytes) != HeadScanner::State::kComplete || scanner.end() != bytes.size()) {
    return Bad(scanner.error().empty() ? "the head is not complete" : scanner.error());
  }
  std::string_view rest = scanner.head(bytes);
  rest.remove_suffix(2);  // the empty line
  bool is_request_line = true;
  while (!rest.empty()) {
    const size_t end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    if (head->headers.size() >= kMaxFields) {
      return HttpError{431, "there are more than " + std::to_string(kMaxFields) + " header fields"};
    }
    if (auto error = is_request_line ? ParseRequestLine(line, head) : ParseField(line, head)) {
      return error;
    }
    is_request_line = false;
  }
  if (auto error = CheckHost(*head)) return error;
  if (auto error = ParseFraming(head)) return error;
  ParseConnection(head);
  return ParseExpect(head);
}

bool IsTokenChar(char c) {
  if (IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded.push_back(text[at]);
      continue;
    }
    if (text.size() - at < 3) return std::nullopt;
    const int high = HexValue(text[at + 1]);
    const int low = HexValue(text[at + 2]);
    if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
    decoded.push_back(static_cast<char>(high * 16 + low));
    at += 2;
  }
  return decoded;
}

std::string Printable(std::string_view text) {
  std::string printable(text.substr(0, kMaxQuotedBytes));
  for (char& c : printable) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  if (text.size() > kMaxQuotedBytes) printable += "...";
  return printable;
}

}  // namespace pergola::gateway
