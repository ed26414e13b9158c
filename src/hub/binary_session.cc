#include "hub/binary_session.h"

#include <curl/curl.h>

#include <utility>

namespace pergola::hub {
namespace {

constexpr size_t kMaxBodyBytes = size_t{256} << 20;
constexpr size_t kQuotedBytes = 300;

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto* body = static_cast<std::string*>(user);
  if (body->size() + size * count > kMaxBodyBytes) return 0;
  body->append(data, size * count);
  return size * count;
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

void Append(const std::string& header, HeaderList* list) {
  list->reset(curl_slist_append(list->release(), header.c_str()));
}

}  // namespace

struct BinarySession::Connection {
  Connection() {
    static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
    (void)code;
    easy = curl_easy_init();
  }
  ~Connection() { curl_easy_cleanup(easy); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  CURL* easy;
};

BinarySession::BinarySession(std::string base, HttpOptions options)
    : base_(std::move(base)), options_(std::move(options)) {
  while (base_.ends_with('/')) base_.pop_back();
  connection_ = std::make_unique<Connection>();
}

BinarySession::~BinarySession() = default;

Result<std::string_view> BinarySession::Get(const std::string& path) {
  curl_easy_setopt(connection_->easy, CURLOPT_HTTPGET, 1L);
  return Perform(path, "application/json");
}

Result<std::string_view> BinarySession::Post(const std::string& path, const std::string& type,
                                             std::string_view body) {
  CURL* easy = connection_->easy;
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  sent_bytes_ += body.size();
  return Perform(path, type);
}

Result<std::string_view> BinarySession::Perform(const std::string& path, const std::string& type) {
  CURL* easy = connection_->easy;
  HeaderList headers;
  Append("Content-Type: " + type, &headers);
  Append("Accept: " + type, &headers);
  Append("Expect:", &headers);  // no waiting for a 100
  if (!options_.token.empty()) Append("Authorization: Bearer " + options_.token, &headers);
  const std::string url = base_ + path;
  char reason[CURL_ERROR_SIZE] = "";
  body_.clear();
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "pergola/" PERGOLA_VERSION);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(options_.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.transfer_timeout.count()));
  if (!options_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body_);
  const CURLcode code = curl_easy_perform(easy);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, nullptr);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
  received_bytes_ += body_.size();
  if (code == CURLE_OPERATION_TIMEDOUT) {
    return DeadlineExceededError(base_ + path + ": no answer in time");
  }
  if (code != CURLE_OK) {
    return UnavailableError(base_ + ": " + (reason[0] != '\0' ? reason : curl_easy_strerror(code)));
  }
  long answered = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answered);
  PERGOLA_RETURN_IF_ERROR(StatusOfAnswer(path, answered));
  return std::string_view(body_);
}

Status BinarySession::StatusOfAnswer(const std::string& path, long code) const {
  if (code / 100 == 2) return OkStatus();
  const std::string message =
      base_ + path + " answered " + std::to_string(code) + ": " + body_.substr(0, kQuotedBytes);
  if (code == 401 || code == 403) return UnauthenticatedError(message);
  if (code == 404) return NotFoundError(message);
  if (code == 429 || code >= 500) return UnavailableError(message);
  return InvalidArgumentError(message);
}

}  // namespace pergola::hub
