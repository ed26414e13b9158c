#include "cli/layer_range.h"

#include <charconv>

namespace pergola::cli {

Result<models::LayerRange> ParseLayerRange(const std::string& text) {
  models::LayerRange layers;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, layers.first);
  bool right = first.ec == std::errc() && first.ptr != text.data();
  layers.last = layers.first;
  if (right && first.ptr != end) {
    right = *first.ptr == '-';
    const auto last = std::from_chars(first.ptr + 1, end, layers.last);
    right = right && last.ec == std::errc() && last.ptr == end;
  }
  if (right && layers.first >= 0 && layers.last >= layers.first) return layers;
  return InvalidArgumentError("'" + text + "' is no range of layers, expected first-last");
}

}  // namespace pergola::cli
