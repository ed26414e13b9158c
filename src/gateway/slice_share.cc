#include "gateway/slice_share.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <utility>

#include "gateway/route_check.h"

namespace pergola::gateway {
namespace {

constexpr std::string_view kListPath = "/v1/slices/slices.json";
constexpr int64_t kChunkBytes = 256 * 1024;

// Digits alone; -1 for none.
bool ParseCount(std::string_view text, int64_t* value) {
  *value = -1;
  if (text.empty()) return true;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), *value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() && *value >= 0;
}

// Reads a part of a file piece by piece.
class FilePiece {
 public:
  FilePiece(const std::string& path, ByteRange range)
      : file_(path, std::ios::binary), left_(range.end - range.first) {
    file_.seekg(range.first);
  }
  bool good() const { return file_.good(); }
  // A file that has become shorter ends early: who reads counts bytes.
  bool Next(std::string* chunk) {
    const int64_t wanted = std::min(left_, kChunkBytes);
    const size_t before = chunk->size();
    chunk->resize(before + static_cast<size_t>(wanted));
    file_.read(chunk->data() + before, wanted);
    chunk->resize(before + static_cast<size_t>(file_.gcount()));
    left_ = file_.gcount() == wanted ? left_ - wanted : 0;
    return left_ > 0;
  }

 private:
  std::ifstream file_;
  int64_t left_;
};

}  // namespace

std::optional<ByteRange> ParseRange(std::string_view header, int64_t size) {
  const ByteRange whole{0, size};
  constexpr std::string_view kUnit = "bytes=";
  if (!header.starts_with(kUnit)) return whole;
  header.remove_prefix(kUnit.size());
  const size_t dash = header.find('-');
  int64_t first = 0, last = 0;
  if (dash == std::string_view::npos || !ParseCount(header.substr(0, dash), &first) ||
      !ParseCount(header.substr(dash + 1), &last) || (first < 0 && last < 0) ||
      (first >= 0 && last >= 0 && last < first)) {
    return whole;
  }
  if (first < 0) {  // the last so many
    if (last == 0) return std::nullopt;
    return ByteRange{std::max<int64_t>(0, size - last), size};
  }
  if (first >= size) return std::nullopt;
  return ByteRange{first, last < 0 ? size : std::min(size - 1, last) + 1};
}

const SharedFile* SliceShare::Find(std::string_view path) const {
  if (!path.starts_with(kSlicesPath) || path.size() <= kSlicesPath.size() + 1 ||
      path[kSlicesPath.size()] != '/') {
    return nullptr;
  }
  const auto found = slices_.files.find(path.substr(kSlicesPath.size() + 1));
  return found == slices_.files.end() ? nullptr : &found->second;
}

HttpHandler::RouteCheck SliceShare::Check(std::string_view method, std::string_view path) const {
  const std::string_view page = Find(path) != nullptr ? path : kListPath;
  RouteCheck check = CheckPage(method, path, {&page, 1});
  if (check.path_known && path != kListPath) check.route = "/v1/slices/{name}/{file}";
  return check;
}

HttpResponse SliceShare::RenderError(std::string_view /*path*/, int status,
                                     std::string_view message) const {
  return ErrorResponse(Envelope::kSplit, status, message);
}

HttpResponse SliceShare::Answer(const HttpRequest& request) const {
  HttpResponse response;
  if (request.path == kListPath) {
    response.body = slices_.list;
    return response;
  }
  const SharedFile* const file = Find(request.path);
  if (file == nullptr) return RenderError(request.path, 404, "there is no such file");
  const std::string size = std::to_string(file->bytes);
  const std::string_view header = request.header("range").value_or("");
  const std::optional<ByteRange> range = ParseRange(header, file->bytes);
  if (!range) {
    response = RenderError(request.path, 416, "the file has " + size + " bytes");
    response.headers.push_back({"content-range", "bytes */" + size});
    return response;
  }
  const auto piece = std::make_shared<FilePiece>(file->path, *range);
  if (!piece->good()) return RenderError(request.path, 500, "the file cannot be read");
  response.content_type = "application/octet-stream";
  response.headers.push_back({"accept-ranges", "bytes"});
  if (range->end - range->first < file->bytes) {
    response.status = 206;
    response.headers.push_back({"content-range", "bytes " + std::to_string(range->first) + "-" +
                                                     std::to_string(range->end - 1) + "/" + size});
  }
  response.next_chunk = [piece](std::string* chunk) { return piece->Next(chunk); };
  return response;
}

void SliceShare::Handle(HttpRequest request, HttpRespond respond) { respond(Answer(request)); }

}  // namespace pergola::gateway
