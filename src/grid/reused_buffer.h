// Memory that serves one message after the other, so that a large one need not find and clear it
// anew, and that does not stay large for small ones:
//
//   ReusedBuffer<std::string> answer(size_t{12} << 20);
//   answer.buffer() = ...; Send(answer.buffer());
//   answer.EndMessage(answer.buffer().size());
//
// It goes after a message of more than the limit, and after kSmallInARow messages that each took
// less than a quarter of it: among large messages a few small ones (a question whether the peer is
// well) are usual, and cost nothing.
#pragma once

#include <cstddef>

namespace pergola::grid {

// `Buffer`: a string, or a vector of bytes. Thread-confined.
template <class Buffer>
class ReusedBuffer {
 public:
  static constexpr int kSmallInARow = 8;

  explicit ReusedBuffer(size_t most_kept_bytes) : most_kept_bytes_(most_kept_bytes) {}

  // As the last message left it, or empty.
  Buffer& buffer() { return buffer_; }

  // `bytes` of the buffer were needed for a message, which is not any more.
  void EndMessage(size_t bytes) {
    const size_t capacity = buffer_.capacity();
    small_in_a_row_ = bytes < capacity / 4 ? small_in_a_row_ + 1 : 0;
    if (capacity > most_kept_bytes_ || small_in_a_row_ == kSmallInARow) GiveBack();
  }
  void GiveBack() {
    Buffer().swap(buffer_);
    small_in_a_row_ = 0;
  }

 private:
  const size_t most_kept_bytes_;
  Buffer buffer_;
  int small_in_a_row_ = 0;
};

}  // namespace pergola::grid
