// Hands out the files of slices to other servers of a grid: the list at /v1/slices/slices.json, the
// files at /v1/slices/NAME/FILE, whole or from a byte on (Range).
//
//   auto share = std::make_shared<SliceShare>(std::move(slices));
//
// Only what is in its table exists: a path is looked up, never joined to a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http_types.h"

namespace pergola::gateway {

inline constexpr std::string_view kSlicesPath = "/v1/slices";

struct SharedFile {
  std::string path;  // where it lies
  int64_t bytes = 0;
};

struct SharedSlices {
  std::string list;                                      // slices.json
  std::map<std::string, SharedFile, std::less<>> files;  // by "NAME/FILE"
};

// The bytes of a file of `size` that a Range header asks for.
struct ByteRange {
  int64_t first = 0;
  int64_t end = 0;  // one behind the last
};
// "bytes=7-", "bytes=7-9", "bytes=-3". Whole: several ranges or another unit, which may be ignored.
// Nothing: 416, the range begins behind the end.
std::optional<ByteRange> ParseRange(std::string_view header, int64_t size);

// Thread-safe. Needs a key where keys are set.
class SliceShare : public HttpHandler {
 public:
  explicit SliceShare(SharedSlices slices) : slices_(std::move(slices)) {}

  RouteCheck Check(std::string_view method, std::string_view path) const override;
  HttpResponse RenderError(std::string_view path, int status,
                           std::string_view message) const override;
  void Handle(HttpRequest request, HttpRespond respond) override;

 private:
  HttpResponse Answer(const HttpRequest& request) const;
  // Null: there is none.
  const SharedFile* Find(std::string_view path) const;

  const SharedSlices slices_;
};

}  // namespace pergola::gateway
