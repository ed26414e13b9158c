#include "formats/source_walk.h"

#include <type_traits>

#include "formats/layout.h"

namespace pergola::formats {
namespace {

uint64_t SumText(std::string_view text) {
  uint64_t sum = text.size();
  for (const char c : text) sum += static_cast<unsigned char>(c);
  return sum;
}

uint64_t SumValue(const MetadataValue& value) {
  return std::visit(
      [](const auto& held) -> uint64_t {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          return SumText(held);
        } else if constexpr (std::is_same_v<T, std::vector<std::string_view>>) {
          uint64_t sum = held.size();
          for (const std::string_view text : held) sum += SumText(text);
          return sum;
        } else if constexpr (std::is_same_v<T, MetadataArray>) {
          uint64_t sum = held.size();
          for (const MetadataValue& item : held) sum += SumValue(item);
          return sum;
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          uint64_t sum = held.size();
          for (const int64_t number : held) sum += static_cast<uint64_t>(number);
          return sum;
        } else if constexpr (std::is_same_v<T, std::vector<float>>) {
          return held.size();
        } else {
          return 1;
        }
      },
      value.value);
}

}  // namespace

Result<uint64_t> WalkSource(const TensorSource& source) {
  uint64_t sum = 0;
  for (const TensorInfo& info : source.tensors()) {
    const auto contradiction = [&](const char* what) {
      return InternalError(TensorAt(info.name, info.file_offset) + ": " + what);
    };
    if (source.Find(info.name) != &info) return contradiction("is listed, but not found");
    const int64_t bytes = info.view.bytes();
    if (bytes <= 0) return contradiction("has no bytes");
    if (info.view.cols() % BlockElements(info.view.dtype) != 0) return contradiction("part block");
    sum +=
        static_cast<uint64_t>(info.view.data[0]) + static_cast<uint64_t>(info.view.data[bytes - 1]);
  }
  for (const UnsupportedTensor& info : source.unsupported()) {
    if (source.Get(info.name).status().code() != StatusCode::kUnimplemented) {
      return InternalError(TensorAt(info.name, info.file_offset) + ": given though unsupported");
    }
    ++sum;
  }
  for (const auto& [key, value] : source.metadata()) sum += SumText(key) + SumValue(value);
  return sum;
}

}  // namespace pergola::formats
