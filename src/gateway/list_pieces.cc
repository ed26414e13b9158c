#include "gateway/list_pieces.h"

#include <algorithm>
#include <span>

#include "service/promised_bytes.h"

namespace pergola::gateway {

std::vector<size_t> CutList(const service::ModelInfo& info,
                            const service::InferenceRequest& request, int replicas,
                            const PieceLimits& limits) {
  const std::span<const Sequence> sequences = request.sequences;
  int64_t tokens = 0;
  for (const Sequence& sequence : sequences) tokens += sequence.tokens();
  int64_t pieces = std::max<int64_t>(1, (tokens + limits.tokens - 1) / limits.tokens);
  if (replicas > 1) {
    const int64_t even = (pieces + replicas - 1) / replicas * replicas;
    if (tokens / even >= limits.tokens / 2) pieces = even;
  }
  const int64_t share = (tokens + pieces - 1) / pieces;
  std::vector<size_t> cuts = {0};
  int64_t piece_tokens = 0;
  int64_t piece_bytes = 0;
  for (size_t index = 0; index < sequences.size(); ++index) {
    const int64_t more_tokens = sequences[index].tokens();
    const int64_t more_bytes =
        service::AnswerBytes(info, request.outputs, sequences.subspan(index, 1));
    if (index > cuts.back() &&
        (piece_tokens + more_tokens > share || piece_bytes + more_bytes > limits.answer_bytes)) {
      cuts.push_back(index);
      piece_tokens = 0;
      piece_bytes = 0;
    }
    piece_tokens += more_tokens;
    piece_bytes += more_bytes;
  }
  cuts.push_back(sequences.size());
  return cuts;
}

}  // namespace pergola::gateway
