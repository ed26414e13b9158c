// The shortest decimal text that reads back as the same float32: what std::to_chars writes, byte
// for byte, at twice its speed for numbers of the size that embeddings have.
#pragma once

namespace pergola::gateway {

inline constexpr int kShortFloatBytes = 24;

// Writes `value`, which is finite, to `begin` with room for kShortFloatBytes, not all of them used;
// returns the end. Bytes behind it may be written to.
char* WriteShortFloat(float value, char* begin);

}  // namespace pergola::gateway
