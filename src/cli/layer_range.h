// "0-8": layers on the command line, both ends included; "3" is 3-3.
#pragma once

#include <string>

#include "models/ffn_stack.h"
#include "pergola/status.h"

namespace pergola::cli {

// INVALID_ARGUMENT naming the text.
Result<models::LayerRange> ParseLayerRange(const std::string& text);

}  // namespace pergola::cli
