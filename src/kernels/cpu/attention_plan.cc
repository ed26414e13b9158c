#include "kernels/cpu/attention_plan.h"

#include "kernels/cpu/kernel_table.h"

namespace pergola::kernels::cpu {

void AttentionPlan::Build(const RaggedView& batch, int64_t past) {
  query_blocks_.clear();
  key_panels_.clear();
  first_panels_.clear();
  for (int32_t seq = 0; seq < batch.num_sequences(); ++seq) {
    const int64_t length =
        batch.cu_seqlens[static_cast<size_t>(seq) + 1] - batch.cu_seqlens[static_cast<size_t>(seq)];
    const int64_t blocks = RoundUp(length, kQueryBlock) / kQueryBlock;
    for (int64_t block = 0; block < blocks; ++block) {
      query_blocks_.push_back({seq, static_cast<int32_t>(past + block * length / blocks),
                               static_cast<int32_t>(past + (block + 1) * length / blocks)});
    }
    first_panels_.push_back(static_cast<int64_t>(key_panels_.size()));
    for (int32_t panel = 0; panel < RoundUp(past + length, kPanelCols) / kPanelCols; ++panel) {
      key_panels_.push_back({seq, panel});
    }
  }
}

}  // namespace pergola::kernels::cpu
