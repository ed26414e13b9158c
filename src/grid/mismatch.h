// How parts of different models or arithmetic are refused: always with both values.
#pragma once

#include <string>
#include <string_view>

#include "pergola/status.h"

namespace pergola::grid {

// FAILED_PRECONDITION: `who` has `theirs` as its `what`, `whose` has `ours`.
inline Status MismatchError(std::string_view who, std::string_view what, std::string_view theirs,
                            std::string_view whose, std::string_view ours) {
  std::string text(who);
  text.append(": its ").append(what).append(" is '").append(theirs).append("', ");
  text.append(whose).append(" is '").append(ours).append("'");
  return FailedPreconditionError(std::move(text));
}

}  // namespace pergola::grid
