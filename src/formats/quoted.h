// A name from a file or a user, made fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace pergola::formats {

// `text` in single quotes, valid UTF-8 whatever the bytes: control characters, and every byte above
// 0x7F if the whole is not UTF-8, become \xNN. Longer than 200 bytes: its beginning and "...".
std::string Quoted(std::string_view text);

}  // namespace pergola::formats
