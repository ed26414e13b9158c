#include "hub/slice_publish.h"

#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "hub/file_sink.h"

namespace pergola::hub {
namespace {

namespace fs = std::filesystem;

std::string ReadIfThere(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

fs::path Incoming(const fs::path& path) {
  return path.parent_path() / (".incoming-" + path.filename().string());
}

Status MoveIn(const fs::path& path) {
  std::error_code error;
  fs::rename(Incoming(path), path, error);
  return error ? WriteError(path, error.value()) : OkStatus();
}

// Leaves a file alone that has this text already.
Status WriteText(const fs::path& path, const std::string& text) {
  if (fs::exists(path) && ReadIfThere(path) == text) return OkStatus();
  std::error_code error;
  fs::remove(Incoming(path), error);
  PERGOLA_ASSIGN_OR_RETURN(FileSink sink, FileSink::Open(Incoming(path)));
  PERGOLA_RETURN_IF_ERROR(sink.Write(text));
  PERGOLA_RETURN_IF_ERROR(sink.Close());
  return MoveIn(path);
}

Status CheckSource(const fs::path& from, const RemoteFile& file) {
  std::error_code error;
  if (!fs::exists(from / file.path, error)) {
    return DataLossError((from / file.path).string() + " is missing");
  }
  return VerifyFile(file, from / file.path).status().WithContext(from.string());
}

// Another model's slice may have the same name.
Status CheckSameModel(const fs::path& folder, const SliceIndex& index) {
  const Result<SliceIndex> there = ReadSliceIndex(folder);
  if (!there.ok() || there->slice.identity == index.slice.identity) return OkStatus();
  return FailedPreconditionError(folder.string() + " is a slice of another model, " +
                                 there->slice.identity + ", not of " + index.slice.identity +
                                 ": remove it, or publish into another folder");
}

Status CopyFile(const fs::path& from, const RemoteFile& file, const fs::path& folder) {
  const fs::path path = folder / file.path;
  std::error_code error;
  fs::copy_file(from / file.path, Incoming(path), fs::copy_options::overwrite_existing, error);
  if (error) return WriteError(path, error.value());
  if (const Status status = VerifyFile(file, Incoming(path)).status(); !status.ok()) {
    fs::remove(Incoming(path), error);
    return status.WithContext(from.string());
  }
  return MoveIn(path);
}

}  // namespace

Result<PublishOutcome> PublishSlice(const fs::path& from, const SliceIndex& index,
                                    const fs::path& out, const std::string& card) {
  const fs::path folder = out / index.slice.name;
  PERGOLA_RETURN_IF_ERROR(CheckSameModel(folder, index));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return WriteError(folder, error.value());
  PublishOutcome outcome;
  std::vector<const RemoteFile*> missing;
  for (const RemoteFile& file : index.files) {
    if (VerifyFile(file, folder / file.path).ok()) {
      outcome.unchanged_bytes += file.bytes;
    } else {
      outcome.copied_bytes += file.bytes;
      missing.push_back(&file);
    }
  }
  PERGOLA_RETURN_IF_ERROR(CheckFreeSpace(out, outcome.copied_bytes));
  for (const RemoteFile* file : missing) PERGOLA_RETURN_IF_ERROR(CheckSource(from, *file));
  // While files change, what is there is no slice.
  if (!missing.empty()) fs::remove(folder / "index.json", error);
  for (const RemoteFile* file : missing) {
    PERGOLA_RETURN_IF_ERROR(CopyFile(from, *file, folder));
  }
  PERGOLA_RETURN_IF_ERROR(WriteText(folder / "README.md", card));
  PERGOLA_RETURN_IF_ERROR(WriteText(folder / "index.json", ReadIfThere(from / "index.json")));
  return outcome;
}

Status WriteSliceList(const fs::path& out) {
  PERGOLA_ASSIGN_OR_RETURN(const std::vector<SliceIndex> scanned, ScanSlices(out));
  std::vector<OfferedSlice> slices;
  for (const SliceIndex& index : scanned) slices.push_back(index.slice);
  return WriteText(out / "slices.json", SliceListJson(slices));
}

}  // namespace pergola::hub
