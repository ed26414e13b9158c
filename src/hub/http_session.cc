#include "hub/http_session.h"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

namespace pergola::hub {
namespace {

// For messages: a query may hold the signature of an upload.
std::string WithoutQuery(const std::string& url) { return url.substr(0, url.find('?')); }

constexpr size_t kMaxBodyBytes = size_t{256} << 20;
constexpr size_t kQuotedBytes = 300;

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto* body = static_cast<std::string*>(user);
  if (body->size() + size * count > kMaxBodyBytes) return 0;
  body->append(data, size * count);
  return size * count;
}

// A stretch of a file on its way.
struct FilePart {
  std::ifstream file;
  int64_t left;
};

size_t OnRead(char* data, size_t size, size_t count, void* user) {
  auto* part = static_cast<FilePart*>(user);
  const int64_t wanted = std::min(part->left, static_cast<int64_t>(size * count));
  if (wanted > 0 && !part->file.read(data, wanted)) return CURL_READFUNC_ABORT;
  part->left -= wanted;
  return static_cast<size_t>(wanted);
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

void Append(const std::string& header, HeaderList* list) {
  list->reset(curl_slist_append(list->release(), header.c_str()));
}

bool Has(const RequestHeaders& headers, const std::string& name) {
  return std::any_of(headers.begin(), headers.end(), [&](const auto& header) {
    return curl_strequal(header.first.c_str(), name.c_str()) != 0;
  });
}

}  // namespace

struct HttpSession::Connection {
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

HttpSession::HttpSession(std::string base, HttpOptions options)
    : base_(std::move(base)), options_(std::move(options)) {
  while (base_.ends_with('/')) base_.pop_back();
  connection_ = std::make_unique<Connection>();
}

HttpSession::~HttpSession() = default;

Result<std::string_view> HttpSession::Get(const std::string& path) {
  curl_easy_setopt(connection_->easy, CURLOPT_HTTPGET, 1L);
  return Perform(path, "application/json", {});
}

Result<std::string_view> HttpSession::Post(const std::string& path, const std::string& type,
                                           std::string_view body, const RequestHeaders& headers) {
  CURL* easy = connection_->easy;
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  sent_bytes_ += body.size();
  return Perform(path, type, headers);
}

Result<std::string> HttpSession::PutFile(const std::string& path, const std::filesystem::path& file,
                                         int64_t offset, int64_t bytes,
                                         const RequestHeaders& headers) {
  FilePart part{std::ifstream(file, std::ios::binary), bytes};
  if (!part.file || !part.file.seekg(offset)) {
    return InternalError(file.string() + " cannot be read from " + std::to_string(offset));
  }
  CURL* easy = connection_->easy;
  curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(easy, CURLOPT_READFUNCTION, OnRead);
  curl_easy_setopt(easy, CURLOPT_READDATA, &part);
  curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes));
  const auto answer = Perform(path, "", headers);
  curl_easy_setopt(easy, CURLOPT_UPLOAD, 0L);
  curl_easy_setopt(easy, CURLOPT_READDATA, nullptr);
  sent_bytes_ += static_cast<uint64_t>(bytes - part.left);
  PERGOLA_RETURN_IF_ERROR(answer.status());
  curl_header* etag = nullptr;
  if (curl_easy_header(easy, "etag", 0, CURLH_HEADER, -1, &etag) != CURLHE_OK) return std::string();
  return std::string(etag->value);
}

Result<std::string_view> HttpSession::Perform(const std::string& path, const std::string& type,
                                              const RequestHeaders& given) {
  CURL* easy = connection_->easy;
  const bool own = !path.starts_with('/');
  const std::string url = own ? path : base_ + path;
  HeaderList headers;
  Append("Expect:", &headers);  // no waiting for a 100
  const auto append = [&](const std::string& name, const std::string& value) {
    if (!Has(given, name)) Append(name + ": " + value, &headers);
  };
  if (!type.empty()) {
    append("Content-Type", type);
    append("Accept", type);
  }
  if (!options_.token.empty() && (!own || UrlOrigin(url) == UrlOrigin(base_))) {
    append("Authorization", "Bearer " + options_.token);
  }
  // With "Name:" libcurl would take the header away.
  for (const auto& [name, value] : given) {
    Append(value.empty() ? name + ";" : name + ": " + value, &headers);
  }
  char reason[CURL_ERROR_SIZE] = "";
  body_.clear();
  retry_after_.reset();
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "pergola/" PERGOLA_VERSION);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(options_.connect_timeout.count()));
  const auto stall = std::chrono::duration_cast<std::chrono::seconds>(options_.stall_timeout);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, std::max<long>(1, stall.count()));
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
    return DeadlineExceededError(WithoutQuery(url) + ": no answer in time");
  }
  if (code != CURLE_OK) {
    const std::string server = own ? UrlOrigin(url) : base_;
    return UnavailableError(server + ": " +
                            (reason[0] != '\0' ? reason : curl_easy_strerror(code)));
  }
  long answered = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answered);
  curl_off_t seconds = 0;  // a date is turned into them, too
  if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK && seconds > 0) {
    retry_after_ = std::chrono::seconds(seconds);
  }
  PERGOLA_RETURN_IF_ERROR(StatusOfAnswer(url, answered));
  return std::string_view(body_);
}

Status HttpSession::StatusOfAnswer(const std::string& url, long code) const {
  if (code / 100 == 2) return OkStatus();
  const std::string message = WithoutQuery(url) + " answered " + std::to_string(code) + ": " +
                              body_.substr(0, kQuotedBytes);
  if (code == 401 || code == 403) return UnauthenticatedError(message);
  if (code == 404) return NotFoundError(message);
  if (code == 409) return AlreadyExistsError(message);
  if (code == 429 || code >= 500) return UnavailableError(message);
  return InvalidArgumentError(message);
}

}  // namespace pergola::hub
