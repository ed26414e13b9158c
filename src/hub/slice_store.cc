#include "hub/slice_store.h"

#include <simdjson.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>
#include <utility>

#include "core/json_text.h"
#include "hub/file_lock.h"
#include "hub/file_sink.h"
#include "hub/remote_path.h"

namespace pergola::hub {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;

constexpr char kIndex[] = "index.json";
constexpr char kList[] = "slices.json";
constexpr int kTries = 5;
constexpr std::chrono::milliseconds kPause{300};

Status Wrong(const std::string& name, const std::string& what) {
  return DataLossError("the slice '" + name + "' " + what);
}

// It becomes a part of a folder's name.
bool IsPart(std::string_view part) {
  return !part.empty() && part.size() <= 32 &&
         part.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string_view::npos;
}

// The members that a list and an index share.
Status ReadFacts(const element& from, OfferedSlice* slice) {
  std::string_view part, identity;
  if (from["part"].get(part) || !IsPart(part) || from["identity"].get(identity)) {
    return Wrong(slice->name, "states no part or identity");
  }
  simdjson::dom::array layers;
  const bool has_layers = from["layers"].get(layers) == simdjson::SUCCESS;
  if (has_layers && (layers.size() != 2 || layers.at(0).get(slice->first_layer) ||
                     layers.at(1).get(slice->last_layer))) {
    return Wrong(slice->name, "has layers that are no range");
  }
  slice->part = part;
  slice->identity = identity;
  const bool hex = slice->identity.find_first_not_of("0123456789abcdef") == std::string::npos;
  return slice->identity.size() == 64 && hex ? OkStatus()
                                             : Wrong(slice->name, "has no proper identity");
}

// A folder's or file's name, not a path.
Status CheckName(std::string_view name) {
  PERGOLA_RETURN_IF_ERROR(CheckRemotePath(name));
  if (name.find('/') == std::string_view::npos && name.front() != '.') return OkStatus();
  return InvalidArgumentError("'" + std::string(name) + "' is no plain name");
}

Result<std::string> ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFoundError("cannot read '" + path.string() + "'");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool Same(const OfferedSlice& a, const OfferedSlice& b) {
  return a.part == b.part && a.identity == b.identity && a.first_layer == b.first_layer &&
         a.last_layer == b.last_layer;
}

// Whose slice it is and which, as a folder's name.
std::string StoreName(const OfferedSlice& slice) {
  std::string name = slice.part;
  if (slice.last_layer >= slice.first_layer) {
    name += "-" + std::to_string(slice.first_layer) + "-" + std::to_string(slice.last_layer);
  }
  return name + "-" + slice.identity.substr(0, 16);
}

int64_t SizeOf(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

Status AllFilesThere(const std::vector<RemoteFile>& files, const fs::path& folder) {
  for (const RemoteFile& file : files) {
    PERGOLA_RETURN_IF_ERROR(VerifyFile(file, folder / file.path).status());
  }
  return OkStatus();
}

Status SystemError(const fs::path& path, const std::error_code& error) {
  return WriteError(path, error.value());
}

}  // namespace

Result<SliceIndex> ParseSliceIndex(const std::string& name, std::string_view json) {
  simdjson::dom::parser parser;
  element root;
  std::string_view format;
  simdjson::dom::array files;
  if (parser.parse(json.data(), json.size()).get(root) || root["format"].get(format) ||
      format != "pergola-slice" || root["files"].get(files)) {
    return Wrong(name, "has an index that is none");
  }
  SliceIndex index;
  index.slice.name = name;
  PERGOLA_RETURN_IF_ERROR(ReadFacts(root, &index.slice));
  for (const element entry : files) {
    std::string_view path, sha256;
    RemoteFile file;
    if (entry["name"].get(path) || entry["bytes"].get(file.bytes) || file.bytes < 0 ||
        entry["sha256"].get(sha256) || sha256.size() != 64) {
      return Wrong(name, "lists a file without name, bytes or SHA-256");
    }
    if (const Status status = CheckName(path); !status.ok() || path == kIndex) {
      return Wrong(name, "lists a file that it must not: " + status.message());
    }
    if (file.bytes > std::numeric_limits<int64_t>::max() - index.slice.bytes) {
      return Wrong(name, "lists more bytes than can be");
    }
    file.path = path;
    file.sha256 = sha256;
    index.slice.bytes += file.bytes;
    index.files.push_back(std::move(file));
  }
  return index;
}

Result<SliceIndex> ReadSliceIndex(const fs::path& folder) {
  PERGOLA_ASSIGN_OR_RETURN(const std::string json, ReadFile(folder / kIndex));
  return ParseSliceIndex(folder.filename().string(), json);
}

Result<std::vector<SliceIndex>> ScanSlices(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) return NotFoundError("cannot read '" + folder.string() + "': " + error.message());
  std::vector<SliceIndex> slices;
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (!CheckName(name).ok()) continue;
    Result<SliceIndex> index = ReadSliceIndex(entry.path());
    if (index.ok()) slices.push_back(std::move(*index));
  }
  std::sort(slices.begin(), slices.end(),
            [](const SliceIndex& a, const SliceIndex& b) { return a.slice.name < b.slice.name; });
  return slices;
}

std::string SliceListJson(std::span<const OfferedSlice> slices) {
  std::string out = "{\"slices\":[";
  for (const OfferedSlice& slice : slices) {
    if (out.back() != '[') out += ',';
    out += "{\"name\":" + JsonString(slice.name) + ",\"part\":" + JsonString(slice.part) +
           ",\"layers\":[" + std::to_string(slice.first_layer) + "," +
           std::to_string(slice.last_layer) + "],\"identity\":" + JsonString(slice.identity) +
           ",\"bytes\":" + std::to_string(slice.bytes) + "}";
  }
  return out + "]}\n";
}

Result<std::vector<OfferedSlice>> ParseSliceList(std::string_view json) {
  simdjson::dom::parser parser;
  element root;
  simdjson::dom::array list;
  if (parser.parse(json.data(), json.size()).get(root) || root["slices"].get(list)) {
    return DataLossError("a list of slices is not readable");
  }
  std::vector<OfferedSlice> slices;
  for (const element entry : list) {
    OfferedSlice slice;
    std::string_view name;
    if (entry["name"].get(name) || entry["bytes"].get(slice.bytes) || slice.bytes < 0) {
      return DataLossError("a list of slices has one without name or bytes");
    }
    PERGOLA_RETURN_IF_ERROR(CheckName(name));
    slice.name = name;
    PERGOLA_RETURN_IF_ERROR(ReadFacts(entry, &slice));
    slices.push_back(std::move(slice));
  }
  return slices;
}

bool IsHttpUrl(std::string_view base) {
  return base.starts_with("http://") || base.starts_with("https://");
}

Result<std::string> SliceSource::ReadText(const std::string& path) const {
  if (!remote()) return ReadFile(fs::path(base_) / path);
  PERGOLA_ASSIGN_OR_RETURN(TextResponse response,
                           client_.GetText(base_ + "/" + UrlEscapePath(path)));
  return std::move(response.body);
}

Result<std::vector<OfferedSlice>> SliceSource::List() const {
  if (remote()) {
    PERGOLA_ASSIGN_OR_RETURN(const std::string json, ReadText(kList));
    return ParseSliceList(json);
  }
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<SliceIndex> scanned, ScanSlices(base_));
  std::vector<OfferedSlice> slices;
  for (const SliceIndex& index : scanned) slices.push_back(index.slice);
  return slices;
}

Status SliceSource::FetchFile(const std::string& slice, const RemoteFile& file,
                              const fs::path& folder) const {
  const fs::path path = folder / file.path;
  if (!remote()) {
    std::error_code error;
    fs::copy_file(fs::path(base_) / slice / file.path, path, fs::copy_options::overwrite_existing,
                  error);
    if (error) return SystemError(path, error);
  } else {
    const std::string url = base_ + "/" + UrlEscapePath(slice + "/" + file.path);
    for (int number = 1;; ++number) {
      const DownloadAttempt attempt = client_.Download(url, path, file.bytes, [](int64_t) {});
      if (attempt.status.ok()) break;
      if (!attempt.retryable || number == kTries) return attempt.status;
      std::this_thread::sleep_for(kPause * number);
    }
  }
  const Status status = VerifyFile(file, path).status();
  std::error_code ignored;
  if (!status.ok()) fs::remove(path, ignored);
  return status;
}

Result<fs::path> SliceSource::Fetch(const OfferedSlice& wanted, const fs::path& store) const {
  PERGOLA_RETURN_IF_ERROR(CheckName(wanted.name));
  PERGOLA_ASSIGN_OR_RETURN(const std::string json, ReadText(wanted.name + "/" + kIndex));
  PERGOLA_ASSIGN_OR_RETURN(const SliceIndex index, ParseSliceIndex(wanted.name, json));
  if (!Same(index.slice, wanted)) return Wrong(wanted.name, "is another one than was offered");
  const fs::path place = store / StoreName(wanted);
  const fs::path partial = store / ("partial-" + StoreName(wanted));
  std::error_code error;
  fs::create_directories(partial, error);
  if (error) return SystemError(partial, error);
  PERGOLA_ASSIGN_OR_RETURN(const FileLock lock,
                           FileLock::Acquire(partial.string() + ".lock", [] {}));
  if (fs::exists(place / kIndex, error) && AllFilesThere(index.files, place).ok()) return place;
  fs::remove_all(place, error);            // damaged, or somebody removed some of it
  fs::create_directories(partial, error);  // another process may have finished it meanwhile
  std::vector<const RemoteFile*> missing;
  int64_t missing_bytes = 0;
  for (const RemoteFile& file : index.files) {
    if (VerifyFile(file, partial / file.path).ok()) continue;
    missing.push_back(&file);
    missing_bytes += std::max<int64_t>(0, file.bytes - SizeOf(partial / file.path));
  }
  PERGOLA_RETURN_IF_ERROR(CheckFreeSpace(store, missing_bytes));
  for (const RemoteFile* file : missing) {
    PERGOLA_RETURN_IF_ERROR(FetchFile(wanted.name, *file, partial));
  }
  fs::remove(partial / kIndex, error);
  PERGOLA_ASSIGN_OR_RETURN(FileSink sink, FileSink::Open(partial / kIndex));
  PERGOLA_RETURN_IF_ERROR(sink.Write(json));
  PERGOLA_RETURN_IF_ERROR(sink.Close());
  fs::rename(partial, place, error);
  if (error) return SystemError(place, error);
  return place;
}

}  // namespace pergola::hub
