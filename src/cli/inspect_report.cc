#include "cli/inspect_report.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <type_traits>

#include "core/json_text.h"
#include "formats/quoted.h"
#include "hub/file_sink.h"

namespace pergola::cli {
namespace {

using formats::MetadataArray;
using formats::MetadataValue;
using formats::TensorInfo;
using formats::UnsupportedTensor;

// A JSON string whatever the bytes.
std::string Json(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return JsonString(text);
  std::string valid;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80) {
      valid += c;
    } else {
      valid += "\xEF\xBF\xBD";
    }
  }
  return JsonString(valid);
}

std::string Number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> text;
  const auto as_float = static_cast<float>(value);
  const auto end = static_cast<double>(as_float) == value
                       ? std::to_chars(text.data(), text.data() + text.size(), as_float)
                       : std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

// Renders values as JSON, or as text where strings are quoted for a terminal.
class ValueRenderer {
 public:
  ValueRenderer(bool is_json, size_t max_values) : is_json_(is_json), max_values_(max_values) {}

  std::string Render(bool value) const { return value ? "true" : "false"; }
  std::string Render(int64_t value) const { return std::to_string(value); }
  std::string Render(uint64_t value) const { return std::to_string(value); }
  std::string Render(double value) const { return Number(value); }
  std::string Render(float value) const { return Number(static_cast<double>(value)); }
  std::string Render(std::string_view value) const {
    return is_json_ ? Json(value) : formats::Quoted(value);
  }
  std::string Render(const MetadataValue& value) const {
    return std::visit([this](const auto& held) { return Render(held); }, value.value);
  }
  template <typename T>
  std::string Render(const std::vector<T>& values) const {
    const size_t shown = std::min(values.size(), max_values_);
    std::string list = "[";
    for (size_t i = 0; i < shown; ++i) list += (i == 0 ? "" : ", ") + Render(values[i]);
    const bool is_cut = shown < values.size();
    const std::string count = std::to_string(values.size());
    if (!is_json_) return list + (is_cut ? ", ...] (" + count + " values)" : "]");
    return is_cut ? "{\"count\": " + count + ", \"first\": " + list + "]}" : list + "]";
  }

 private:
  bool is_json_;
  size_t max_values_;
};

// A row of the table: a tensor, supported or not.
struct Row {
  std::string_view name;
  std::string type;
  bool is_supported;
  const Shape* shape;
  uint32_t file_index;
  uint64_t file_offset;
  uint64_t bytes;  // 0: not known
};

std::vector<Row> Rows(const formats::TensorSource& source) {
  std::vector<Row> rows;
  for (const TensorInfo& info : source.tensors()) {
    rows.push_back({info.name, std::string(DTypeName(info.view.dtype)), true, &info.view.shape,
                    info.file_index, info.file_offset, static_cast<uint64_t>(info.view.bytes())});
  }
  for (const UnsupportedTensor& info : source.unsupported()) {
    rows.push_back(
        {info.name, info.type, false, &info.shape, info.file_index, info.file_offset, info.bytes});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.file_index != b.file_index ? a.file_index < b.file_index
                                        : a.file_offset < b.file_offset;
  });
  return rows;
}

struct Total {
  int64_t tensors = 0;
  int64_t elements = 0;
  uint64_t bytes = 0;
};

// By type. Sums cannot overflow where bytes are disjoint parts of files; elements of unsupported
// types are whatever the file claims and are counted as 0 where the size is not known.
std::map<std::string, Total> Totals(const std::vector<Row>& rows) {
  std::map<std::string, Total> totals;
  for (const Row& row : rows) {
    Total& total = totals[row.type];
    ++total.tensors;
    total.bytes += row.bytes;
    if (row.bytes > 0 && row.is_supported) total.elements += row.shape->elements();
  }
  return totals;
}

// Appends cells padded to the widest of each column, the first `num_left` flush left.
void AppendTable(const std::vector<std::vector<std::string>>& cells, size_t num_left,
                 std::string* text) {
  std::vector<size_t> widths;
  for (const auto& row : cells) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : cells) {
    *text += " ";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      const bool is_last_left = i < num_left && i + 1 == row.size();
      *text += " " + (i < num_left ? row[i] + (is_last_left ? "" : padding) : padding + row[i]);
      if (i + 1 < row.size()) *text += " ";
    }
    *text += "\n";
  }
}

std::string Plain(std::string_view name) {
  const std::string quoted = formats::Quoted(name);
  return quoted.substr(1, quoted.size() - 2);
}

void AppendTensorTable(const std::vector<Row>& rows, bool has_shards, std::string* text) {
  std::vector<std::vector<std::string>> cells = {{"NAME", "TYPE", "SHAPE", "OFFSET", "BYTES"}};
  if (has_shards) cells[0].push_back("FILE");
  for (const Row& row : rows) {
    cells.push_back({Plain(row.name), Plain(row.type) + (row.is_supported ? "" : " (unsupported)"),
                     row.shape->ToString(), std::to_string(row.file_offset),
                     row.bytes == 0 ? "?" : std::to_string(row.bytes)});
    if (has_shards) cells.back().push_back(std::to_string(row.file_index + 1));
  }
  AppendTable(cells, 3, text);
}

void AppendVerification(const Inspection& inspection, std::string* text) {
  for (const InspectedFile& file : inspection.files) {
    *text += "sha256    " + file.sha256 + "  " + Plain(file.path) + "\n";
  }
  for (const NonFiniteTensor& bad : *inspection.non_finite) {
    *text += "bad       tensor " + formats::Quoted(bad.name) + " at offset " +
             std::to_string(bad.file_offset) + ": " + std::to_string(bad.count) +
             " values are not finite, the first at index " + std::to_string(bad.first_index) + "\n";
  }
  if (inspection.non_finite->empty()) *text += "verified  all values are finite\n";
}

}  // namespace

std::string InspectionText(const Inspection& inspection) {
  const formats::TensorSource& source = *inspection.source;
  const ValueRenderer renderer(false, inspection.max_array_values);
  std::string text = "format    " + std::string(source.format()) + "\n";
  for (const InspectedFile& file : inspection.files) {
    text += "file      " + Plain(file.path) + "  " + hub::HumanBytes(file.bytes) + "\n";
  }
  text += "metadata  " + std::to_string(source.metadata().size()) + "\n";
  std::vector<std::vector<std::string>> metadata;
  for (const auto& [key, value] : source.metadata()) {
    metadata.push_back({Plain(key), renderer.Render(value)});
  }
  AppendTable(metadata, 2, &text);
  const std::vector<Row> rows = Rows(source);
  text += "tensors   " + std::to_string(rows.size()) + "\n";
  AppendTensorTable(rows, inspection.files.size() > 1, &text);
  text += "totals\n";
  std::vector<std::vector<std::string>> totals = {{"TYPE", "TENSORS", "ELEMENTS", "BYTES"}};
  for (const auto& [type, total] : Totals(rows)) {
    totals.push_back({Plain(type), std::to_string(total.tensors),
                      total.elements == 0 ? "?" : std::to_string(total.elements),
                      total.bytes == 0 ? "?" : std::to_string(total.bytes)});
  }
  AppendTable(totals, 1, &text);
  if (inspection.non_finite) AppendVerification(inspection, &text);
  return text;
}

namespace {

std::string FilesJson(const Inspection& inspection) {
  std::string json = "[";
  for (const InspectedFile& file : inspection.files) {
    json += (json.size() == 1 ? "" : ", ") + ("{\"path\": " + Json(file.path)) +
            ", \"bytes\": " + std::to_string(file.bytes);
    if (!file.sha256.empty()) json += ", \"sha256\": " + Json(file.sha256);
    json += "}";
  }
  return json + "]";
}

std::string MetadataJson(const Inspection& inspection) {
  const ValueRenderer renderer(true, inspection.max_array_values);
  std::string json = "{";
  for (const auto& [key, value] : inspection.source->metadata()) {
    json += (json.size() == 1 ? "\n  " : ",\n  ") + Json(key) + ": " + renderer.Render(value);
  }
  return json + "}";
}

std::string TensorsJson(const std::vector<Row>& rows) {
  std::string json = "[";
  for (const Row& row : rows) {
    json += (json.size() == 1 ? "\n  " : ",\n  ") + ("{\"name\": " + Json(row.name)) +
            ", \"dtype\": " + Json(row.type) +
            ", \"supported\": " + (row.is_supported ? "true" : "false") +
            ", \"shape\": " + row.shape->ToString() +
            ", \"file\": " + std::to_string(row.file_index) +
            ", \"offset\": " + std::to_string(row.file_offset) +
            ", \"bytes\": " + (row.bytes == 0 ? "null" : std::to_string(row.bytes)) + "}";
  }
  return json + "]";
}

std::string TotalsJson(const std::vector<Row>& rows) {
  std::string json = "{";
  for (const auto& [type, total] : Totals(rows)) {
    json += (json.size() == 1 ? "" : ", ") + Json(type) +
            ": {\"tensors\": " + std::to_string(total.tensors) +
            ", \"elements\": " + (total.elements == 0 ? "null" : std::to_string(total.elements)) +
            ", \"bytes\": " + (total.bytes == 0 ? "null" : std::to_string(total.bytes)) + "}";
  }
  return json + "}";
}

std::string VerifyJson(const std::vector<NonFiniteTensor>& non_finite) {
  std::string json =
      std::string("{\"ok\": ") + (non_finite.empty() ? "true" : "false") + ", \"non_finite\": [";
  for (const NonFiniteTensor& bad : non_finite) {
    json += (json.back() == '[' ? "" : ", ") + ("{\"name\": " + Json(bad.name)) +
            ", \"file\": " + std::to_string(bad.file_index) +
            ", \"offset\": " + std::to_string(bad.file_offset) +
            ", \"count\": " + std::to_string(bad.count) +
            ", \"first_index\": " + std::to_string(bad.first_index) + "}";
  }
  return json + "]}";
}

}  // namespace

std::string InspectionJson(const Inspection& inspection) {
  const std::vector<Row> rows = Rows(*inspection.source);
  std::string json =
      "{\"format\": " + Json(inspection.source->format()) +
      ",\n \"files\": " + FilesJson(inspection) + ",\n \"metadata\": " + MetadataJson(inspection) +
      ",\n \"tensors\": " + TensorsJson(rows) + ",\n \"totals\": " + TotalsJson(rows);
  if (inspection.non_finite) json += ",\n \"verify\": " + VerifyJson(*inspection.non_finite);
  return json + "}\n";
}

}  // namespace pergola::cli
