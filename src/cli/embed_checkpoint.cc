#include "cli/embed_checkpoint.h"

#include <simdjson.h>

#include <filesystem>

#include "core/json_text.h"
#include "hub/file_sink.h"

namespace pergola::cli {

namespace fs = std::filesystem;

std::string CheckpointPath(const std::string& output) { return output + ".resume"; }

Status WriteCheckpoint(const std::string& output, const EmbedCheckpoint& checkpoint) {
  const std::string path = CheckpointPath(output);
  const std::string fresh = path + ".new";
  const std::string json = "{\"settings\":" + JsonString(checkpoint.settings) +
                           ",\"rows\":" + std::to_string(checkpoint.state.rows) +
                           ",\"bytes\":" + std::to_string(checkpoint.state.bytes) +
                           ",\"records\":" + std::to_string(checkpoint.state.records) +
                           ",\"skipped\":" + std::to_string(checkpoint.skipped) + "}\n";
  std::error_code error;
  fs::remove(fresh, error);
  PERGOLA_ASSIGN_OR_RETURN(hub::FileSink sink, hub::FileSink::Open(fs::absolute(fresh, error)));
  PERGOLA_RETURN_IF_ERROR(sink.Write(json));
  PERGOLA_RETURN_IF_ERROR(sink.Close());
  fs::rename(fresh, path, error);
  return error ? hub::WriteError(path, error.value()) : OkStatus();
}

std::optional<EmbedCheckpoint> ReadCheckpoint(const std::string& output) {
  simdjson::dom::parser parser;
  simdjson::padded_string json;
  simdjson::dom::element root;
  std::string_view settings;
  EmbedCheckpoint checkpoint;
  if (simdjson::padded_string::load(CheckpointPath(output)).get(json) ||
      parser.parse(json).get(root) || root["settings"].get(settings) ||
      root["rows"].get(checkpoint.state.rows) || root["bytes"].get(checkpoint.state.bytes) ||
      root["records"].get(checkpoint.state.records) || root["skipped"].get(checkpoint.skipped)) {
    return std::nullopt;
  }
  checkpoint.settings = settings;
  return checkpoint;
}

void RemoveCheckpoint(const std::string& output) {
  std::error_code ignored;
  fs::remove(CheckpointPath(output), ignored);
}

Result<std::optional<EmbedCheckpoint>> FindResumePoint(const std::string& output, RowFormat format,
                                                       int64_t width, const std::string& settings) {
  std::error_code error;
  const bool exists = fs::exists(output, error);
  if (!exists) return std::optional<EmbedCheckpoint>();
  const auto size = static_cast<int64_t>(fs::file_size(output, error));
  if (size == 0) return std::optional<EmbedCheckpoint>();
  std::optional<EmbedCheckpoint> checkpoint = ReadCheckpoint(output);
  if (checkpoint && checkpoint->settings != settings) {
    return InvalidArgumentError("cannot continue '" + output + "': it was begun with " +
                                checkpoint->settings + ", now asked for is " + settings);
  }
  if (checkpoint && size >= checkpoint->state.bytes) return checkpoint;
  PERGOLA_ASSIGN_OR_RETURN(const RowFileState state, InspectRowFile(output, format, width));
  if (checkpoint && checkpoint->skipped > 0 && format != RowFormat::kJsonl) {
    return InvalidArgumentError(
        "cannot continue '" + output +
        "': it is shorter than its checkpoint says, and lines were skipped");
  }
  return std::optional<EmbedCheckpoint>(
      EmbedCheckpoint{settings, state, state.records - state.rows});
}

}  // namespace pergola::cli
