#include "hub/http_client.h"

#include <curl/curl.h>

#include <memory>
#include <string_view>

#include "core/ascii.h"
#include "hub/file_sink.h"

namespace pergola::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxTextBytes = 64 << 20;

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, FreeEasy>;
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

void InitialiseOnce() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)code;
}

long ResponseCode(CURL* easy) {
  long code = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
  return code;
}

std::string Header(CURL* easy, const char* name) {
  curl_header* header = nullptr;
  if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return "";
  return header->value;
}

// Receives the body of one response. False ends the transfer.
class BodyReceiver {
 public:
  virtual ~BodyReceiver() = default;
  virtual bool Receive(CURL* easy, std::string_view bytes) = 0;
};

struct WriteContext {
  CURL* easy;
  BodyReceiver* receiver;
};

size_t OnWrite(char* data, size_t size, size_t count, void* user) {
  auto* context = static_cast<WriteContext*>(user);
  const std::string_view bytes(data, size * count);
  // The body of a redirect or an error says nothing that is used.
  if (ResponseCode(context->easy) / 100 != 2) return bytes.size();
  return context->receiver->Receive(context->easy, bytes) ? bytes.size() : 0;
}

int OnTransferInfo(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* cancel = static_cast<const std::atomic<bool>*>(user);
  return cancel != nullptr && cancel->load() ? 1 : 0;
}

void SetOptions(CURL* easy, const HttpOptions& options, const std::string& url) {
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  if (!options.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options.ca_file.c_str());
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "pergola/" PERGOLA_VERSION);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(options.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  const auto stall = std::chrono::duration_cast<std::chrono::seconds>(options.stall_timeout);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, std::max<long>(1, stall.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(options.transfer_timeout.count()));
  // A name that nobody resolves must not hold up who has given up on it.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, OnTransferInfo);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, options.cancel);
}

struct Transfer {
  CURLcode code = CURLE_OK;
  long http_code = 0;
  std::string url;     // of the last hop
  std::string reason;  // libcurl's words
};

// Follows redirects by hand, so that the token goes to the first URL's origin only and https never
// turns into http.
Transfer Perform(CURL* easy, const HttpOptions& options, const std::string& first_url,
                 const std::string& range, BodyReceiver* receiver) {
  Transfer transfer;
  transfer.url = first_url;
  char reason[CURL_ERROR_SIZE] = "";
  WriteContext context{easy, receiver};
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, OnWrite);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &context);
  if (!range.empty()) curl_easy_setopt(easy, CURLOPT_RANGE, range.c_str());
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    SetOptions(easy, options, transfer.url);
    HeaderList headers;
    if (!options.token.empty() && UrlOrigin(transfer.url) == UrlOrigin(first_url)) {
      headers.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + options.token).c_str()));
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
    transfer.code = curl_easy_perform(easy);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, nullptr);
    transfer.http_code = ResponseCode(easy);
    transfer.reason = reason[0] != '\0' ? reason : curl_easy_strerror(transfer.code);
    char* next = nullptr;
    curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &next);
    if (transfer.code != CURLE_OK || transfer.http_code / 100 != 3 || next == nullptr) break;
    if (transfer.url.starts_with("https:") && !std::string_view(next).starts_with("https:")) {
      transfer.code = CURLE_UNSUPPORTED_PROTOCOL;
      transfer.reason = "redirected from https to an unprotected URL";
      break;
    }
    transfer.url = next;
  }
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
  return transfer;
}

bool IsRetryable(CURLcode code) {
  switch (code) {
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

// The outcome of a transfer that no receiver complained of.
DownloadAttempt Outcome(const Transfer& transfer, const HttpOptions& options) {
  const std::string where = UrlOrigin(transfer.url);
  if (transfer.code == CURLE_ABORTED_BY_CALLBACK) return {CancelledError("cancelled"), false};
  // Before a connection stands, a time-out is final; afterwards it is a stall that may pass.
  const bool stalled = transfer.code == CURLE_OPERATION_TIMEDOUT && transfer.http_code != 0;
  if (transfer.code != CURLE_OK) {
    return {UnavailableError(where + ": " + transfer.reason),
            stalled || IsRetryable(transfer.code)};
  }
  const std::string answered =
      where + " answered " + std::to_string(transfer.http_code) + " for " + transfer.url;
  if (transfer.http_code / 100 == 2) return {OkStatus(), false};
  switch (transfer.http_code) {
    case 401:
    case 403:
      return {UnauthenticatedError(
                  answered + (options.token.empty()
                                  ? ": the model does not exist, or wants a token (HF_TOKEN) of "
                                    "someone who accepted its terms"
                                  : ": the token in HF_TOKEN may not read this model")),
              false};
    case 404:
    case 410:
      return {NotFoundError(answered), false};
    case 408:
    case 429:
      return {UnavailableError(answered), true};
    default:
      return {UnavailableError(answered), transfer.http_code >= 500};
  }
}

class TextReceiver : public BodyReceiver {
 public:
  bool Receive(CURL*, std::string_view bytes) override {
    if (body.size() + bytes.size() > kMaxTextBytes) return false;
    body.append(bytes);
    return true;
  }
  std::string body;
};

// <https://...>; rel="next"
std::string NextLink(std::string_view link) {
  while (!link.empty()) {
    const size_t open = link.find('<');
    const size_t close = link.find('>', open);
    if (open == std::string_view::npos || close == std::string_view::npos) return "";
    const size_t comma = std::min(link.find(",", close), link.size());
    const std::string_view parameters = link.substr(close, comma - close);
    if (parameters.find("rel=\"next\"") != std::string_view::npos) {
      return std::string(link.substr(open + 1, close - open - 1));
    }
    link.remove_prefix(comma);
  }
  return "";
}

class FileReceiver : public BodyReceiver {
 public:
  FileReceiver(FileSink sink, int64_t expected_bytes, const std::function<void(int64_t)>& on_bytes)
      : sink_(std::move(sink)), expected_bytes_(expected_bytes), on_bytes_(on_bytes) {}

  bool Receive(CURL* easy, std::string_view bytes) override {
    if (!started_) {
      started_ = true;
      status_ = StartAt(easy);
      if (!status_.ok()) return false;
    }
    if (sink_.bytes() + static_cast<int64_t>(bytes.size()) > expected_bytes_) {
      status_ = DataLossError("the server sends more than the " + std::to_string(expected_bytes_) +
                              " bytes it announced");
      return false;
    }
    status_ = sink_.Write(bytes);
    if (!status_.ok()) return false;
    on_bytes_(sink_.bytes());
    return true;
  }

  FileSink& sink() { return sink_; }
  const Status& status() const { return status_; }

 private:
  // A 206 that continues where the file ends is appended; anything else starts over.
  Status StartAt(CURL* easy) {
    const std::string continued = "bytes " + std::to_string(sink_.bytes()) + "-";
    if (ResponseCode(easy) == 206 && Header(easy, "content-range").starts_with(continued)) {
      return OkStatus();
    }
    if (ResponseCode(easy) == 206) {
      return DataLossError("the server continues at another place than asked for: '" +
                           Header(easy, "content-range") + "'");
    }
    return sink_.bytes() == 0 ? OkStatus() : sink_.Truncate(0);
  }

  FileSink sink_;
  int64_t expected_bytes_;
  const std::function<void(int64_t)>& on_bytes_;
  Status status_;
  bool started_ = false;
};

}  // namespace

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) { InitialiseOnce(); }

Result<TextResponse> HttpClient::GetText(const std::string& url) const {
  const Easy easy(curl_easy_init());
  TextReceiver receiver;
  const Transfer transfer = Perform(easy.get(), options_, url, "", &receiver);
  if (transfer.code == CURLE_WRITE_ERROR) {
    return ResourceExhaustedError("the answer to " + url + " is longer than 64 MiB");
  }
  PERGOLA_RETURN_IF_ERROR(Outcome(transfer, options_).status);
  return TextResponse{std::move(receiver.body), NextLink(Header(easy.get(), "link"))};
}

DownloadAttempt HttpClient::Download(const std::string& url, const std::filesystem::path& path,
                                     int64_t expected_bytes,
                                     const std::function<void(int64_t)>& on_bytes) const {
  Result<FileSink> sink = FileSink::Open(path);
  if (!sink.ok()) return {sink.status(), false};
  if (sink->bytes() > expected_bytes) {
    if (Status status = sink->Truncate(0); !status.ok()) return {status, false};
  }
  on_bytes(sink->bytes());
  if (sink->bytes() == expected_bytes && expected_bytes > 0) return {sink->Close(), false};
  const std::string range = sink->bytes() > 0 ? std::to_string(sink->bytes()) + "-" : "";
  const Easy easy(curl_easy_init());
  FileReceiver receiver(std::move(*sink), expected_bytes, on_bytes);
  const Transfer transfer = Perform(easy.get(), options_, url, range, &receiver);
  if (!receiver.status().ok()) return {receiver.status(), false};
  DownloadAttempt attempt = Outcome(transfer, options_);
  if (transfer.http_code == 416) {  // the file changed under us: start over next time
    const Status status = receiver.sink().Truncate(0);
    return {status.ok() ? attempt.status : status, status.ok()};
  }
  if (attempt.status.ok() && receiver.sink().bytes() < expected_bytes) {
    attempt = {DataLossError("the answer for " + url + " ended after " +
                             std::to_string(receiver.sink().bytes()) + " of " +
                             std::to_string(expected_bytes) + " bytes"),
               true};
  }
  const Status closed = receiver.sink().Close();
  if (!closed.ok()) return {closed, false};
  return attempt;
}

std::string UrlOrigin(const std::string& url) {
  const std::unique_ptr<CURLU, FreeUrl> parsed(curl_url());
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  std::string origin;
  for (const auto& [part, before] :
       {std::pair{CURLUPART_SCHEME, ""}, {CURLUPART_HOST, "://"}, {CURLUPART_PORT, ":"}}) {
    char* text = nullptr;
    const unsigned flags = part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0;
    if (curl_url_get(parsed.get(), part, &text, flags) != CURLUE_OK) return "";
    origin += before + LowerCase(text);
    curl_free(text);
  }
  return origin.starts_with("http://") || origin.starts_with("https://") ? origin : "";
}

std::string UrlEscapePath(const std::string& path) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string escaped;
  for (unsigned char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || c == '/';
    if (plain) {
      escaped += static_cast<char>(c);
    } else {
      escaped += '%';
      escaped += kDigits[c >> 4];
      escaped += kDigits[c & 15];
    }
  }
  return escaped;
}

}  // namespace pergola::hub
