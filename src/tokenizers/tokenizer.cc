#include "tokenizers/tokenizer.h"

namespace pergola::tokenizers {

void Encoding::clear() {
  ids.clear();
  type_ids.clear();
  offsets.clear();
  special_mask.clear();
  truncated = false;
  total_tokens = 0;
  total_is_exact = true;
}

}  // namespace pergola::tokenizers
