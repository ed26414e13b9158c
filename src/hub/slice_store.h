// Slices of models (docs/formats/slice.md) where others keep them, and how one is brought here.
//
//   SliceSource source("http://10.0.0.2:42690/v1/slices", {});        // or a folder
//   PERGOLA_ASSIGN_OR_RETURN(std::vector<OfferedSlice> offered, source.List());
//   PERGOLA_ASSIGN_OR_RETURN(fs::path here, source.Fetch(offered[0], "/var/lib/pergola"));
//
// A source has a folder per slice. Over HTTP it also has slices.json, the list of them:
//   {"slices":[{"name","part","layers":[first,last],"identity","bytes"}]}
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hub/http_client.h"
#include "hub/remote_file.h"
#include "pergola/status.h"

namespace pergola::hub {

struct OfferedSlice {
  std::string name;  // of its folder
  std::string part;  // "embed", "head", "ffn", "attention", "client": small letters and "-"
  int64_t first_layer = 0;
  int64_t last_layer = -1;
  std::string identity;  // 64 hexadecimal digits
  int64_t bytes = 0;     // of its files
};

// What an index.json states: the slice and its files, which are all but index.json itself.
// DATA_LOSS: it is none, names a file that would lie elsewhere or has no checksum, or its sizes are
// more than an int64_t holds together.
struct SliceIndex {
  OfferedSlice slice;
  std::vector<RemoteFile> files;
};
Result<SliceIndex> ParseSliceIndex(const std::string& name, std::string_view json);
// Of the slice in `folder`. NOT_FOUND too.
Result<SliceIndex> ReadSliceIndex(const std::filesystem::path& folder);

// The slices in the folders of `folder`, sorted by name; what is no slice is passed over.
Result<std::vector<SliceIndex>> ScanSlices(const std::filesystem::path& folder);
// slices.json, and its contents.
std::string SliceListJson(std::span<const OfferedSlice> slices);
Result<std::vector<OfferedSlice>> ParseSliceList(std::string_view json);

// Whether a source is a URL; else it is a folder.
bool IsHttpUrl(std::string_view base);

// Thread-compatible.
class SliceSource {
 public:
  // `base`: a folder, or the URL of one. `http`: with the key of the source, if it wants one.
  SliceSource(std::string base, HttpOptions http)
      : base_(std::move(base)), client_(std::move(http)) {}

  const std::string& base() const { return base_; }

  // NOT_FOUND, UNAVAILABLE, UNAUTHENTICATED, DATA_LOSS.
  Result<std::vector<OfferedSlice>> List() const;
  // The folder in `store` that holds the slice when all its checksums are right; it is renamed into
  // place at once. What an earlier try brought is continued, what is there already is not fetched.
  // DATA_LOSS: wrong bytes, which are deleted, or another slice than was offered;
  // RESOURCE_EXHAUSTED: disk full.
  Result<std::filesystem::path> Fetch(const OfferedSlice& wanted,
                                      const std::filesystem::path& store) const;

 private:
  bool remote() const { return IsHttpUrl(base_); }
  Result<std::string> ReadText(const std::string& path) const;
  Status FetchFile(const std::string& slice, const RemoteFile& file,
                   const std::filesystem::path& folder) const;

  const std::string base_;
  const HttpClient client_;
};

}  // namespace pergola::hub
