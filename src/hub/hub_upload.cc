#include "hub/hub_upload.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ascii.h"
#include "core/json_text.h"
#include "hub/digest.h"
#include "hub/http_session.h"
#include "hub/hub_source.h"
#include "hub/remote_file.h"

namespace pergola::hub {
namespace {

constexpr int64_t kMostPartBytes = int64_t{64} << 30;

namespace fs = std::filesystem;
using simdjson::dom::element;

constexpr char kJson[] = "application/json";
constexpr char kLfsJson[] = "application/vnd.git-lfs+json";
constexpr char kLines[] = "application/x-ndjson";
constexpr int64_t kSampleBytes = 512;  // by which a hub tells texts from binary files

struct Pending {
  const UploadFile* file;
  int64_t bytes;
  bool large = false;
  std::string sha256 = {};  // of a large one
};

std::string Base64(std::string_view bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t three = 0;
    for (size_t i = 0; i < 3; ++i) {
      three = three << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0u);
    }
    for (size_t i = 0; i < 4; ++i) {
      text += at + i <= bytes.size() ? kDigits[three >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

Result<std::string> ReadUpTo(const UploadFile& file, int64_t limit) {
  if (file.from.empty()) return file.text.substr(0, static_cast<size_t>(limit));
  std::ifstream stream(file.from, std::ios::binary);
  std::string bytes(static_cast<size_t>(limit), '\0');
  if (!stream || (!stream.read(bytes.data(), limit) && stream.bad())) {
    return InternalError(file.from.string() + " cannot be read");
  }
  bytes.resize(static_cast<size_t>(stream.gcount()));
  return bytes;
}

// What says where the parts of a file go, and is no header: "chunk_size", and numbers.
bool IsPartField(std::string_view name) {
  return name == "chunk_size" || name.find_first_not_of("0123456789") == std::string_view::npos;
}

// How much is sent, and how, is the session's affair.
bool IsFraming(std::string_view name) {
  return EqualsIgnoringCase(name, "content-length") ||
         EqualsIgnoringCase(name, "transfer-encoding");
}

// What the hub wants sent along with the request of an action of its answer. DATA_LOSS: what no
// header may be.
Result<RequestHeaders> HeadersOf(simdjson::simdjson_result<element> action) {
  RequestHeaders headers;
  simdjson::dom::object fields;
  if (action["header"].get(fields) != simdjson::SUCCESS) return headers;
  const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
  const auto of_name = [](char c) { return c > 0x20 && c < 0x7f && c != ':'; };
  for (const auto field : fields) {
    const std::string name(field.key);
    std::string_view value;
    if (IsPartField(name) || field.value.get(value) != simdjson::SUCCESS) continue;
    if (!std::all_of(name.begin(), name.end(), of_name) ||
        !std::all_of(value.begin(), value.end(), printable)) {
      return DataLossError("the hub names a header that is none");
    }
    if (!IsFraming(name)) headers.emplace_back(name, value);
  }
  return headers;
}

// One run; the steps of hub_upload.h in order.
class Upload {
 public:
  Upload(const HubConfig& config, const std::string& repository, const UploadOptions& options)
      : repository_(repository),
        options_(options),
        api_("/api/models/" + UrlEscapePath(repository)),
        session_(config.endpoint, {.connect_timeout = config.connect_timeout,
                                   .stall_timeout = config.stall_timeout,
                                   .token = config.token}) {}

  Result<UploadOutcome> Run(std::span<const UploadFile> files);

 private:
  Status Create();
  // What the repository has; nothing if it is new.
  Result<std::map<std::string, RemoteFile>> List();
  Result<bool> IsThere(const UploadFile& file, const RemoteFile& known) const;
  Status AskModes();
  Status SendLarge(UploadOutcome* outcome);
  Status SendObject(const Pending& pending, element actions);
  Status SendParts(const Pending& pending, const std::string& url, element header,
                   const RequestHeaders& headers);
  Status Commit();
  // A server that cannot be reached or is busy is asked again, after a pause.
  template <typename Answer>
  Answer WithTries(const std::function<Answer()>& attempt);
  Result<element> PostFor(const std::string& path, const char* type, const std::string& body);
  std::string Revision(const char* what) const {
    return api_ + what + UrlEscapePath(options_.revision);
  }

  const std::string& repository_;
  const UploadOptions& options_;
  const std::string api_;
  HttpSession session_;
  simdjson::dom::parser parser_;
  std::vector<Pending> pending_;
};

template <typename Answer>
Answer Upload::WithTries(const std::function<Answer()>& attempt) {
  for (int failed = 1;; ++failed) {
    Answer answer = attempt();
    const StatusCode code = [&] {
      if constexpr (std::is_same_v<Answer, Status>) {
        return answer.code();
      } else {
        return answer.status().code();
      }
    }();
    const bool busy = code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded;
    if (!busy || failed >= options_.retry.tries) return answer;
    const auto pause = PauseAfter(options_.retry, failed, session_.retry_after());
    if (!pause) return answer;
    options_.retry.Wait(*pause);
  }
}

Result<element> Upload::PostFor(const std::string& path, const char* type,
                                const std::string& body) {
  const auto answer =
      WithTries<Result<std::string_view>>([&] { return session_.Post(path, type, body); });
  PERGOLA_RETURN_IF_ERROR(answer.status());
  element root;
  if (parser_.parse(answer->data(), answer->size()).get(root) != simdjson::SUCCESS) {
    return DataLossError(session_.base() + path + " answered what is no JSON");
  }
  return root;
}

Status Upload::Create() {
  const size_t slash = repository_.find('/');
  const std::string body =
      "{\"name\":" + JsonString(repository_.substr(slash + 1)) +
      ",\"organization\":" + JsonString(repository_.substr(0, slash)) +
      ",\"type\":\"model\",\"private\":" + (options_.private_repository ? "true}" : "false}");
  const Status made =
      WithTries<Status>([&] { return session_.Post("/api/repos/create", kJson, body).status(); });
  return made.code() == StatusCode::kAlreadyExists ? OkStatus() : made;
}

Result<std::map<std::string, RemoteFile>> Upload::List() {
  std::map<std::string, RemoteFile> there;
  const auto answer = WithTries<Result<std::string_view>>(
      [&] { return session_.Get(Revision("/tree/") + "?recursive=true"); });
  if (answer.status().code() == StatusCode::kNotFound) return there;  // nothing committed yet
  PERGOLA_RETURN_IF_ERROR(answer.status());
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<RemoteFile> files, ParseTree(*answer));
  for (const RemoteFile& file : files) there.emplace(file.path, file);
  return there;
}

Result<bool> Upload::IsThere(const UploadFile& file, const RemoteFile& known) const {
  if (!file.from.empty()) return VerifyFile(known, file.from).ok();
  if (known.bytes != static_cast<int64_t>(file.text.size())) return false;
  return known.sha256.empty() ? GitBlobSha1(file.text) == known.git_sha1
                              : Sha256(file.text) == known.sha256;
}

Status Upload::AskModes() {
  std::string body;
  for (const Pending& pending : pending_) {
    PERGOLA_ASSIGN_OR_RETURN(const std::string sample, ReadUpTo(*pending.file, kSampleBytes));
    body += (body.empty() ? "{\"files\":[" : ",");
    body += "{\"path\":" + JsonString(pending.file->path) + ",\"sample\":\"" + Base64(sample) +
            "\",\"size\":" + std::to_string(pending.bytes) + "}";
  }
  PERGOLA_ASSIGN_OR_RETURN(const element root,
                           PostFor(Revision("/preupload/"), kJson, body + "]}"));
  simdjson::dom::array modes;
  if (root["files"].get(modes) != simdjson::SUCCESS) {
    return DataLossError(session_.base() + " does not say which files are large");
  }
  std::set<std::string, std::less<>> large;
  for (const element entry : modes) {
    std::string_view path, mode;
    if (entry["path"].get(path) == simdjson::SUCCESS &&
        entry["uploadMode"].get(mode) == simdjson::SUCCESS && mode == "lfs") {
      large.emplace(path);
    }
  }
  for (Pending& pending : pending_) pending.large = large.contains(pending.file->path);
  return OkStatus();
}

Status Upload::SendLarge(UploadOutcome* outcome) {
  std::string body;
  std::map<std::string, const Pending*, std::less<>> by_sum;
  for (Pending& pending : pending_) {
    if (!pending.large) continue;
    if (pending.file->from.empty()) {
      return UnimplementedError(pending.file->path + " is text that the hub wants as a large file");
    }
    PERGOLA_ASSIGN_OR_RETURN(pending.sha256, Sha256OfFile(pending.file->from));
    by_sum.emplace(pending.sha256, &pending);
  }
  if (by_sum.empty()) return OkStatus();
  for (const auto& [sum, pending] : by_sum) {
    body += (body.empty() ? "" : ",");
    body += "{\"oid\":\"" + sum + "\",\"size\":" + std::to_string(pending->bytes) + "}";
  }
  body =
      R"({"operation":"upload","transfers":["basic","multipart"],"hash_algo":"sha256","objects":[)" +
      body + "]}";
  PERGOLA_ASSIGN_OR_RETURN(
      const element root,
      PostFor("/" + UrlEscapePath(repository_) + ".git/info/lfs/objects/batch", kLfsJson, body));
  simdjson::dom::array objects;
  if (root["objects"].get(objects) != simdjson::SUCCESS) {
    return DataLossError(session_.base() + " does not say where large files go");
  }
  for (const element object : objects) {
    std::string_view oid, complaint;
    const auto known =
        object["oid"].get(oid) == simdjson::SUCCESS ? by_sum.find(oid) : by_sum.end();
    if (known == by_sum.end()) return DataLossError(session_.base() + " names an unknown file");
    const Pending& pending = *known->second;
    if (object["error"]["message"].get(complaint) == simdjson::SUCCESS) {
      return InvalidArgumentError(session_.base() + " does not take " + pending.file->path + ": " +
                                  std::string(complaint));
    }
    element actions;
    // Without them the hub has the object: an earlier run got so far.
    if (object["actions"].get(actions) != simdjson::SUCCESS) continue;
    PERGOLA_RETURN_IF_ERROR(SendObject(pending, actions).WithContext(pending.file->path));
    outcome->uploaded_bytes += pending.bytes;
    outcome->unchanged_bytes -= pending.bytes;
  }
  return OkStatus();
}

Status Upload::SendObject(const Pending& pending, element actions) {
  std::string_view href;
  if (actions["upload"]["href"].get(href) != simdjson::SUCCESS) {
    return DataLossError(session_.base() + " names no place for a large file");
  }
  const std::string url(href);
  PERGOLA_ASSIGN_OR_RETURN(const RequestHeaders headers, HeadersOf(actions["upload"]));
  element header;
  std::string_view chunk;
  if (actions["upload"]["header"].get(header) == simdjson::SUCCESS &&
      header["chunk_size"].get(chunk) == simdjson::SUCCESS) {
    PERGOLA_RETURN_IF_ERROR(SendParts(pending, url, header, headers));
  } else {
    PERGOLA_RETURN_IF_ERROR(WithTries<Result<std::string>>([&] {
                              return session_.PutFile(url, pending.file->from, 0, pending.bytes,
                                                      headers);
                            }).status());
  }
  std::string_view verify;
  if (actions["verify"]["href"].get(verify) != simdjson::SUCCESS) return OkStatus();
  const std::string body =
      "{\"oid\":\"" + pending.sha256 + "\",\"size\":" + std::to_string(pending.bytes) + "}";
  const std::string verify_url(verify);
  PERGOLA_ASSIGN_OR_RETURN(const RequestHeaders verify_headers, HeadersOf(actions["verify"]));
  return WithTries<Status>(
      [&] { return session_.Post(verify_url, kLfsJson, body, verify_headers).status(); });
}

Status Upload::SendParts(const Pending& pending, const std::string& url, element header,
                         const RequestHeaders& headers) {
  std::string_view chunk_text;
  PERGOLA_RETURN_IF_ERROR(header["chunk_size"].get(chunk_text) == simdjson::SUCCESS
                              ? OkStatus()
                              : DataLossError("no size of parts"));
  int64_t chunk = 0;
  const char* const end = chunk_text.data() + chunk_text.size();
  const auto [stopped, problem] = std::from_chars(chunk_text.data(), end, chunk);
  if (problem != std::errc() || stopped != end || chunk <= 0 || chunk > kMostPartBytes) {
    return DataLossError("parts of " + std::string(chunk_text) + " bytes");
  }
  std::map<int, std::string> places;  // by number, "1" or "00001"
  simdjson::dom::object fields;
  if (header.get(fields) != simdjson::SUCCESS) return DataLossError("no list of parts");
  for (const auto [key, value] : fields) {
    std::string_view place;
    const int number = std::atoi(std::string(key).c_str());
    if (number > 0 && value.get(place) == simdjson::SUCCESS) places.emplace(number, place);
  }
  const int64_t count = (pending.bytes - 1) / chunk + 1;
  std::string done;
  for (int64_t part = 1; part <= count; ++part) {
    const auto place = places.find(static_cast<int>(part));
    if (place == places.end()) {
      return DataLossError("the hub names no place for part " + std::to_string(part));
    }
    const int64_t offset = (part - 1) * chunk;
    PERGOLA_ASSIGN_OR_RETURN(const std::string etag, WithTries<Result<std::string>>([&] {
                               return session_.PutFile(place->second, pending.file->from, offset,
                                                       std::min(chunk, pending.bytes - offset),
                                                       headers);
                             }));
    if (etag.empty()) return DataLossError("the storage names no ETag of a part");
    done += done.empty() ? "" : ",";
    done += "{\"partNumber\":" + std::to_string(part) + ",\"etag\":" + JsonString(etag) + "}";
  }
  const std::string body = "{\"oid\":\"" + pending.sha256 + "\",\"parts\":[" + done + "]}";
  return WithTries<Status>([&] { return session_.Post(url, kLfsJson, body, headers).status(); });
}

Status Upload::Commit() {
  std::string lines = "{\"key\":\"header\",\"value\":{\"summary\":" + JsonString(options_.message) +
                      ",\"description\":\"\"}}\n";
  for (const Pending& pending : pending_) {
    const std::string path = JsonString(pending.file->path);
    if (pending.large) {
      lines += "{\"key\":\"lfsFile\",\"value\":{\"path\":" + path +
               ",\"algo\":\"sha256\",\"oid\":\"" + pending.sha256 +
               "\",\"size\":" + std::to_string(pending.bytes) + "}}\n";
      continue;
    }
    PERGOLA_ASSIGN_OR_RETURN(const std::string bytes, ReadUpTo(*pending.file, pending.bytes));
    lines += "{\"key\":\"file\",\"value\":{\"content\":\"" + Base64(bytes) + "\",\"path\":" + path +
             ",\"encoding\":\"base64\"}}\n";
  }
  // Not tried again: a commit whose answer was lost stands, and the next run finds it.
  return session_.Post(Revision("/commit/"), kLines, lines).status();
}

Result<UploadOutcome> Upload::Run(std::span<const UploadFile> files) {
  PERGOLA_RETURN_IF_ERROR(Create());
  PERGOLA_ASSIGN_OR_RETURN(const auto there, List());
  UploadOutcome outcome;
  for (const UploadFile& file : files) {
    std::error_code error;
    const int64_t bytes = file.from.empty() ? static_cast<int64_t>(file.text.size())
                                            : static_cast<int64_t>(fs::file_size(file.from, error));
    if (error) return NotFoundError(file.from.string() + ": " + error.message());
    const auto known = there.find(file.path);
    if (known != there.end()) {
      PERGOLA_ASSIGN_OR_RETURN(const bool same, IsThere(file, known->second));
      if (same) {
        outcome.unchanged_bytes += bytes;
        continue;
      }
    }
    pending_.push_back({&file, bytes});
  }
  if (pending_.empty()) return outcome;
  PERGOLA_RETURN_IF_ERROR(AskModes());
  for (const Pending& pending : pending_) {
    (pending.large ? outcome.unchanged_bytes : outcome.uploaded_bytes) += pending.bytes;
  }
  PERGOLA_RETURN_IF_ERROR(SendLarge(&outcome));  // moves what it sends from one to the other
  PERGOLA_RETURN_IF_ERROR(Commit());
  return outcome;
}

}  // namespace

Result<UploadOutcome> UploadFiles(const HubConfig& config, const std::string& repository,
                                  std::span<const UploadFile> files, const UploadOptions& options) {
  if (config.offline) return FailedPreconditionError("offline: nothing is uploaded");
  if (repository.find('/') == std::string::npos) {
    return InvalidArgumentError("'" + repository + "' is no repository, expected OWNER/NAME");
  }
  if (config.token.empty()) {
    return UnauthenticatedError("uploading wants a token that may write, in HF_TOKEN");
  }
  return Upload(config, repository, options).Run(files);
}

}  // namespace pergola::hub
