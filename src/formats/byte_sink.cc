#include "formats/byte_sink.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "formats/quoted.h"

namespace pergola::formats {
namespace {

Status WriteTemporary(const std::string& path, const std::function<Status(const ByteSink&)>& emit) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const auto failed = [&] { return UnavailableError("file " + Quoted(path) + ": cannot write"); };
  if (!file) return failed();
  PERGOLA_RETURN_IF_ERROR(emit([&](std::string_view bytes) -> Status {
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file ? OkStatus() : failed();
  }));
  file.close();
  return file ? OkStatus() : failed();
}

}  // namespace

Status WriteFileWhole(const std::string& path, const std::function<Status(const ByteSink&)>& emit) {
  const std::string temporary = path + ".part";
  std::error_code error;
  Status status = WriteTemporary(temporary, emit);
  if (status.ok()) {
    std::filesystem::rename(temporary, path, error);
    if (error) {
      status = UnavailableError("file " + Quoted(path) + ": cannot rename: " + error.message());
    }
  }
  if (!status.ok()) std::filesystem::remove(temporary, error);
  return status;
}

}  // namespace pergola::formats
