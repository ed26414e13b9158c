#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/check.h"
#include "kernels/converted_weight.h"
#include "kernels/cpu/aligned_buffer.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/linear_plan.h"
#include "kernels/cpu/panel_weight.h"
#include "kernels/cpu/rotation.h"
#include "kernels/dequantise.h"
#include "kernels/weight_checks.h"

namespace pergola::kernels::cpu {
namespace {

// Values that an elementwise item touches: some 5 us.
constexpr int64_t kItemValues = 16384;
// Multiply-adds that an attention item does at least: some 5 us.
constexpr int64_t kItemMultiplyAdds = 200'000;

// A whole number of blocks of every type.
constexpr int64_t kAnyBlock = 256;

std::string_view RowFormatName(RowFormat format) {
  switch (format) {
    case RowFormat::kF32:
      break;
    case RowFormat::kI16Row:
    case RowFormat::kI16Sums:
      return "i16-row";
    case RowFormat::kI8Block:
      return "i8-block";
    case RowFormat::kBF16Row:
      return "bf16-row";
    case RowFormat::kI8Rotated:
      return "i8-rotated";
  }
  return "f32";
}

// The vectors of one head of `num_heads`.
void SetDistanceVectors(const DistanceVectors& vectors, int64_t head, int64_t num_heads,
                        AttentionTask* task) {
  const auto of_head = [&](const LinearWeight* weight) -> const float* {
    if (weight == nullptr) return nullptr;
    const auto& panels = static_cast<const PanelWeight&>(*weight);
    PERGOLA_DCHECK(panels.format() == PanelFormat::kF32 && panels.inputs() == task->width);
    PERGOLA_DCHECK(panels.outputs() % (num_heads * DistanceVectors::kRowMultiple) == 0);
    PERGOLA_DCHECK(vectors.rows.back() < panels.outputs() / num_heads);
    return reinterpret_cast<const float*>(panels.panels()) +
           head * (panels.outputs() / num_heads) * panels.inputs();
  };
  task->distance_rows = vectors.rows.data();
  task->distance_reach = vectors.reach();
  task->distance_keys = of_head(vectors.keys);
  task->distance_queries = of_head(vectors.queries);
}

class CpuOps final : public Ops {
 public:
  CpuOps(const InstructionSet& isa, int num_threads)
      : isa_(isa), pool_(num_threads), thread_scratch_(static_cast<size_t>(num_threads)) {}

  std::string_view name() const override { return isa_.name; }
  ThreadPool& threads() override { return pool_; }

  std::string numeric_class(DType dtype, const LinearOptions& options) const override {
    const auto format_of = [&](LinearRole role) {
      LinearOptions of_role = options;
      of_role.role = role;
      return PanelFormatOf(dtype, kAnyBlock, of_role, *isa_.table);
    };
    const auto rows_of = [&](LinearRole role) {
      return RowFormatName(RowFormatOf(format_of(role)));
    };
    const PanelFormat format = format_of(LinearRole::kOther);
    const std::string_view rows = rows_of(LinearRole::kOther), up_rows = rows_of(LinearRole::kUp);
    const DType computed = format == PanelFormat::kRotatedBytes
                               ? DType::kI8
                               : ComputedType(options.weights, dtype, kAnyBlock);
    std::string text = WeightClassName(dtype, computed);
    text.append(" x ").append(rows);
    if (IsInPlace(format)) text.append(" in place");
    if (up_rows != rows) {
      text.append(" (").append(up_rows).append(" before up");
      if (options.narrow_to >= LinearRole::kQueryOrOutput) text.append(", query, output");
      if (options.narrow_to >= LinearRole::kGate) text.append(", gate");
      text.append(")");
    }
    if (format == PanelFormat::kRotatedBytes && isa_.table->attention_bf16.attention) {
      text.append(", bf16 attention");
    }
    return text.append(", ").append(isa_.name);
  }

  Result<std::unique_ptr<LinearWeight>> PrepareLinear(TensorView weight,
                                                      const LinearOptions& options) override {
    PERGOLA_RETURN_IF_ERROR(CheckLinearWeight(weight));
    const PanelFormat format = PanelFormatOf(weight.dtype, weight.cols(), options, *isa_.table);
    // Rotated bytes are rounded from the values themselves.
    const ConvertedWeight converted(
        weight, format == PanelFormat::kRotatedBytes ? WeightType::kAsIs : options.weights);
    return std::unique_ptr<LinearWeight>(
        std::make_unique<PanelWeight>(converted.view(), format, pool_.num_threads(), weights_));
  }

  void Linears(ConstF32Matrix x, std::span<const LinearOutput> outputs) override;
  void Gather(TensorView table, std::span<const int32_t> ids, float scale, bool accumulate,
              F32Matrix y) override;
  void LayerNorm(ConstF32Matrix x, const float* weight, const float* bias, float epsilon,
                 F32Matrix y) override;
  void RmsNorm(ConstF32Matrix x, const float* weight, int64_t width, float epsilon,
               F32Matrix y) override;
  void RmsNormAdd(ConstF32Matrix x, const float* weight, float epsilon, F32Matrix y) override;
  void Add(ConstF32Matrix x, F32Matrix y) override;
  void GatedActivation(Epilogue activation, F32Matrix gate, ConstF32Matrix up) override;
  void Rope(F32Matrix x, int64_t head_width, const float* cos_sin,
            std::span<const int32_t> positions) override;
  void Attention(ConstF32Matrix q, ConstF32Matrix k, ConstF32Matrix v, const RaggedView& batch,
                 const AttentionOptions& options, F32Matrix out) override;
  void Pool(ConstF32Matrix x, const RaggedView& batch, PoolingKind kind, F32Matrix y) override;

 private:
  // body(row_begin, row_end, thread) over chunks of rows of `cols` values.
  template <typename Body>
  void ForRowChunks(int64_t rows, int64_t cols, const Body& body) {
    const int64_t chunk = std::max<int64_t>(1, kItemValues / std::max<int64_t>(1, cols));
    pool_.ParallelForWithThread((rows + chunk - 1) / chunk, [&](int64_t item, int thread) {
      body(item * chunk, std::min(rows, (item + 1) * chunk), thread);
    });
  }

  // Scratch of `count` values of T for every thread; before a loop, never in it.
  template <typename T>
  void ReserveThreadScratch(int64_t count) {
    for (AlignedBuffer& buffer : thread_scratch_) buffer.Reserve<T>(count);
  }
  template <typename T>
  T* thread_scratch(int thread) {
    return thread_scratch_[static_cast<size_t>(thread)].as<T>();
  }

  using QuantiseBlocks = void(const float* x, int64_t count, int8_t* q, BlockScales scales);
  void PrepareBlocks(ConstF32Matrix x, int64_t block, QuantiseBlocks* quantise, LinearTask& task);
  // Brings x into `format` and fills in what a task says of its rows.
  void PrepareRows(ConstF32Matrix x, RowFormat format, LinearTask& task);

  // One of several products that are cut into the items of one loop.
  struct Product {
    LinearTask task;  // but for its rows, panels and scratch
    LinearPlan plan;
    void (*kernel)(const LinearTask& task) = nullptr;
    int64_t first_item = 0;
  };
  Product PlanProduct(ConstF32Matrix x, const LinearTask& rows, const LinearOutput& output) const;
  void RunProducts(ConstF32Matrix x, const LinearTask& rows, std::span<const LinearOutput> outputs);

  void GatherRow(const TensorView& table, int32_t id, float scale, bool accumulate, float* scratch,
                 float* y) const;
  // How attention's operands lie for one set of options.
  struct AttentionPanels {
    const AttentionKernels* kernels;
    int64_t key_bytes, value_bytes;  // of 16 keys of one head
  };
  AttentionPanels PanelsFor(const AttentionOptions& options) const;
  void PackKeysAndValues(ConstF32Matrix k, ConstF32Matrix v, const RaggedView& batch,
                         const AttentionOptions& options, const AttentionPanels& layout);

  InstructionSet isa_;
  ThreadPool pool_;
  ChunkedMemory weights_;
  std::vector<AlignedBuffer> thread_scratch_;
  // Activations of a product as i16, i8 or bf16, and their scales.
  AlignedBuffer rows_;
  AlignedBuffer row_scales_;
  AlignedBuffer block_starts_;
  std::vector<Product> products_;  // kept to reuse memory
  // Per sequence and in it per key/value head, as AttentionTask says.
  AlignedBuffer packed_keys_;
  AlignedBuffer packed_values_;
  AttentionPlan attention_plan_;
};

void CpuOps::PrepareBlocks(ConstF32Matrix x, int64_t block, QuantiseBlocks* quantise,
                           LinearTask& task) {
  const int64_t blocks = x.cols / block;
  int8_t* rows = rows_.Reserve<int8_t>(x.rows * x.cols);
  float* scales = row_scales_.Reserve<float>(x.rows * blocks);
  int32_t* starts = block_starts_.Reserve<int32_t>(x.rows * blocks);
  ForRowChunks(x.rows, x.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      quantise(x.row(row), x.cols, rows + row * x.cols,
               {scales + row * blocks, starts + row * blocks});
    }
  });
  task.block_scale = scales;
  task.block_start = starts;
}

void CpuOps::PrepareRows(ConstF32Matrix x, RowFormat format, LinearTask& task) {
  const KernelTable& table = *isa_.table;
  const auto for_rows = [&](const auto& prepare) {
    ForRowChunks(x.rows, x.cols, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) prepare(row);
    });
  };
  task.a_stride = x.cols;
  switch (format) {
    case RowFormat::kF32:
      task.a = x.data;
      task.a_stride = x.stride;
      return;
    case RowFormat::kI16Row:
    case RowFormat::kI16Sums: {
      int16_t* rows = rows_.Reserve<int16_t>(x.rows * x.cols);
      float* scales = row_scales_.Reserve<float>(x.rows);
      const int64_t blocks = format == RowFormat::kI16Sums ? x.cols / kBlock : 0;
      int32_t* sums = block_starts_.Reserve<int32_t>(x.rows * blocks);
      for_rows([&](int64_t row) {
        table.quantise_row(x.row(row), x.cols, rows + row * x.cols, scales + row);
        if (blocks > 0) table.sum_blocks(rows + row * x.cols, x.cols, sums + row * blocks);
      });
      task.row_scale = scales;
      task.block_start = sums;
      break;
    }
    case RowFormat::kI8Block:
      PrepareBlocks(x, kBlock, table.quantise_blocks, task);
      break;
    case RowFormat::kI8Rotated:
      PrepareBlocks(x, kScaledBlock, table.quantise_rotated, task);
      break;
    case RowFormat::kBF16Row: {
      task.a_stride = x.cols + x.cols % 2;
      uint16_t* rows = rows_.Reserve<uint16_t>(x.rows * task.a_stride);
      for_rows([&](int64_t row) {
        table.round_to_bf16(x.row(row), x.cols, rows + row * task.a_stride);
      });
      break;
    }
  }
  task.a = rows_.data();
}

void CpuOps::Linears(ConstF32Matrix x, std::span<const LinearOutput> outputs) {
  const auto format = [&](size_t index) {
    return RowFormatOf(static_cast<const PanelWeight&>(*outputs[index].weight).format());
  };
  for (size_t begin = 0, end = 0; begin < outputs.size(); begin = end) {
    for (end = begin + 1; end < outputs.size() && format(end) == format(begin); ++end) {
    }
    LinearTask rows = {};
    PrepareRows(x, format(begin), rows);
    RunProducts(x, rows, outputs.subspan(begin, end - begin));
  }
}

CpuOps::Product CpuOps::PlanProduct(ConstF32Matrix x, const LinearTask& rows,
                                    const LinearOutput& output) const {
  const PanelWeight& weight = static_cast<const PanelWeight&>(*output.weight);
  PERGOLA_DCHECK(x.cols == weight.inputs() && output.y.cols == weight.outputs());
  PERGOLA_DCHECK(x.rows == output.y.rows);
  Product product;
  product.task = rows;
  product.task.panels = weight.panels();
  product.task.panel_bytes = weight.panel_bytes();
  product.task.inputs = weight.inputs();
  product.task.outputs = weight.outputs();
  product.task.bias = output.bias;
  product.task.epilogue = output.epilogue;
  product.task.y = output.y.data;
  product.task.y_stride = output.y.stride;
  product.plan = PlanLinear(x.rows, weight.num_panels(), weight.inputs(), pool_.num_threads());
  product.kernel = isa_.table->linear[static_cast<size_t>(weight.format())];
  return product;
}

void CpuOps::RunProducts(ConstF32Matrix x, const LinearTask& rows,
                         std::span<const LinearOutput> outputs) {
  products_.clear();
  int64_t items = 0;
  for (const LinearOutput& output : outputs) {
    products_.push_back(PlanProduct(x, rows, output));
    products_.back().first_item = items;
    items += products_.back().plan.items();
  }
  ReserveThreadScratch<std::byte>(static_cast<int64_t>(kLinearScratchBytes));
  pool_.ParallelForWithThread(items, [&](int64_t item, int thread) {
    const Product* product = &products_.back();
    while (product->first_item > item) --product;
    const int64_t own_item = item - product->first_item;
    LinearTask task = product->task;
    task.row_begin = product->plan.ItemRows(own_item).begin;
    task.row_end = product->plan.ItemRows(own_item).end;
    task.panel_begin = product->plan.ItemPanels(own_item).begin;
    task.panel_end = product->plan.ItemPanels(own_item).end;
    task.scratch = thread_scratch<std::byte>(thread);
    product->kernel(task);
  });
}

void CpuOps::GatherRow(const TensorView& table, int32_t id, float scale, bool accumulate,
                       float* scratch, float* y) const {
  PERGOLA_DCHECK(id >= 0 && id < table.rows());
  const std::byte* row = table.row(id);
  if (const RowDecoder decode = RowDecoderOf(*isa_.table, table.dtype); decode && !accumulate) {
    return decode(row, table.cols(), scale, y);
  }
  const bool in_place =
      table.dtype == DType::kF32 && reinterpret_cast<uintptr_t>(row) % alignof(float) == 0;
  if (!in_place) DequantiseRow(table.dtype, row, table.cols(), scratch);
  const float* values = in_place ? reinterpret_cast<const float*>(row) : scratch;
  isa_.table->scale_row(values, scale, accumulate, table.cols(), y);
}

void CpuOps::Gather(TensorView table, std::span<const int32_t> ids, float scale, bool accumulate,
                    F32Matrix y) {
  PERGOLA_DCHECK(static_cast<int64_t>(ids.size()) == y.rows && table.cols() == y.cols);
  ReserveThreadScratch<float>(y.cols);
  ForRowChunks(y.rows, y.cols, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; ++row) {
      GatherRow(table, ids[static_cast<size_t>(row)], scale, accumulate,
                thread_scratch<float>(thread), y.row(row));
    }
  });
}

void CpuOps::LayerNorm(ConstF32Matrix x, const float* weight, const float* bias, float epsilon,
                       F32Matrix y) {
  PERGOLA_DCHECK(x.rows == y.rows && x.cols == y.cols);
  const NormTask task{x.data, x.stride, weight, bias, epsilon, x.cols, x.cols, y.data, y.stride};
  ForRowChunks(x.rows, x.cols,
               [&](int64_t begin, int64_t end, int) { isa_.table->layer_norm(task, begin, end); });
}

void CpuOps::RmsNorm(ConstF32Matrix x, const float* weight, int64_t width, float epsilon,
                     F32Matrix y) {
  PERGOLA_DCHECK(x.rows == y.rows && x.cols == y.cols && width > 0 && x.cols % width == 0);
  const NormTask task{x.data, x.stride, weight, nullptr, epsilon, x.cols, width, y.data, y.stride};
  ForRowChunks(x.rows, x.cols,
               [&](int64_t begin, int64_t end, int) { isa_.table->rms_norm(task, begin, end); });
}

void CpuOps::RmsNormAdd(ConstF32Matrix x, const float* weight, float epsilon, F32Matrix y) {
  PERGOLA_DCHECK(x.rows == y.rows && x.cols == y.cols);
  const NormTask task{x.data, x.stride, weight, nullptr, epsilon, x.cols, x.cols, y.data, y.stride};
  ForRowChunks(x.rows, x.cols, [&](int64_t begin, int64_t end, int) {
    isa_.table->rms_norm_add(task, begin, end);
  });
}

void CpuOps::Add(ConstF32Matrix x, F32Matrix y) {
  PERGOLA_DCHECK(x.rows == y.rows && x.cols == y.cols);
  ForRowChunks(x.rows, x.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      isa_.table->add_row(x.row(row), x.cols, y.row(row));
    }
  });
}

void CpuOps::GatedActivation(Epilogue activation, F32Matrix gate, ConstF32Matrix up) {
  PERGOLA_DCHECK(gate.rows == up.rows && gate.cols == up.cols);
  ForRowChunks(gate.rows, gate.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      isa_.table->gated_row(activation, up.row(row), gate.cols, gate.row(row));
    }
  });
}

void CpuOps::Rope(F32Matrix x, int64_t head_width, const float* cos_sin,
                  std::span<const int32_t> positions) {
  PERGOLA_DCHECK(head_width % 2 == 0 && x.cols % head_width == 0);
  PERGOLA_DCHECK(static_cast<int64_t>(positions.size()) == x.rows);
  ForRowChunks(x.rows, x.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float* angles = cos_sin + positions[static_cast<size_t>(row)] * head_width;
      isa_.table->rope_row(angles, head_width, x.cols, x.row(row));
    }
  });
}

CpuOps::AttentionPanels CpuOps::PanelsFor(const AttentionOptions& options) const {
  const KernelTable& table = *isa_.table;
  const int64_t width = options.head_width;
  // Products with distance vectors are made from the same queries, in f32.
  const bool rounded = options.round_to_bf16 && table.attention_bf16.attention != nullptr &&
                       options.distance_vectors == nullptr;
  if (!rounded) {
    return {&table.attention_f32, kPanelCols * width * 4,
            kPanelCols * RoundUp(width, kPanelCols) * 4};
  }
  return {&table.attention_bf16, kPanelCols * RoundUp(width, 2) * 2,
          kPanelCols * RoundUp(width, kPanelCols) * 2};
}

void CpuOps::PackKeysAndValues(ConstF32Matrix k, ConstF32Matrix v, const RaggedView& batch,
                               const AttentionOptions& options, const AttentionPanels& layout) {
  const int64_t width = options.head_width;
  const int64_t heads = options.num_kv_heads;
  const auto& panels = attention_plan_.key_panels();
  const int64_t num_panels = static_cast<int64_t>(panels.size());
  std::byte* keys = packed_keys_.Reserve<std::byte>(num_panels * heads * layout.key_bytes);
  std::byte* values = packed_values_.Reserve<std::byte>(num_panels * heads * layout.value_bytes);
  const int64_t chunk = std::max<int64_t>(1, kItemValues / (kPanelCols * width * heads));
  pool_.ParallelFor((num_panels + chunk - 1) / chunk, [&](int64_t item) {
    for (int64_t at = item * chunk; at < std::min(num_panels, (item + 1) * chunk); ++at) {
      const auto [seq, index] = panels[static_cast<size_t>(at)];
      const int64_t first_row = batch.cu_seqlens[static_cast<size_t>(seq)];
      const int64_t length =
          options.past + batch.cu_seqlens[static_cast<size_t>(seq) + 1] - first_row;
      const int64_t seq_panels = RoundUp(length, kPanelCols) / kPanelCols;
      const int64_t first_panel = attention_plan_.first_panel(seq) * heads;
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t place = first_panel + head * seq_panels;
        layout.kernels->pack_keys(k.row(first_row) + head * width, k.stride, length, width, index,
                                  index + 1, keys + place * layout.key_bytes);
        layout.kernels->pack_values(v.row(first_row) + head * width, v.stride, length, width, index,
                                    index + 1, values + place * layout.value_bytes);
      }
    }
  });
}

void CpuOps::Attention(ConstF32Matrix q, ConstF32Matrix k, ConstF32Matrix v,
                       const RaggedView& batch, const AttentionOptions& options, F32Matrix out) {
  const int64_t width = options.head_width;
  const int64_t heads = options.num_heads;
  const int64_t group = heads / options.num_kv_heads;
  PERGOLA_DCHECK(heads % options.num_kv_heads == 0 && q.cols == heads * width);
  PERGOLA_DCHECK(k.cols == options.num_kv_heads * width && v.cols == k.cols && out.cols == q.cols);
  PERGOLA_DCHECK(batch.num_tokens() == q.rows && v.rows == k.rows);
  PERGOLA_DCHECK(k.rows == options.past + q.rows);
  PERGOLA_DCHECK(options.past == 0 || batch.num_sequences() == 1);
  PERGOLA_DCHECK(options.mask.left >= 0 && options.mask.right >= 0);
  if (q.rows == 0) return;
  attention_plan_.Build(batch, options.past);
  const AttentionPanels layout = PanelsFor(options);
  PackKeysAndValues(k, v, batch, options, layout);
  ReserveThreadScratch<float>(AttentionScratchFloats(width));

  const auto& blocks = attention_plan_.query_blocks();
  const auto run = [&](int64_t unit, int thread) {
    const auto [seq, query_begin, query_end] = blocks[static_cast<size_t>(unit / heads)];
    const int64_t head = unit % heads;
    const int64_t first_row = batch.cu_seqlens[static_cast<size_t>(seq)];
    AttentionTask task = {};
    task.length = options.past + batch.cu_seqlens[static_cast<size_t>(seq) + 1] - first_row;
    // Rows are numbered by position: those of the past have no query, and are not read.
    task.q = q.row(first_row - options.past) + head * width;
    task.q_stride = q.stride;
    const int64_t place = attention_plan_.first_panel(seq) * options.num_kv_heads +
                          head / group * (RoundUp(task.length, kPanelCols) / kPanelCols);
    task.keys = packed_keys_.as<std::byte>() + place * layout.key_bytes;
    task.values = packed_values_.as<std::byte>() + place * layout.value_bytes;
    task.width = width;
    task.query_begin = query_begin;
    task.query_end = query_end;
    task.scale = options.scale;
    task.mask = options.mask;
    task.bias_reach = options.bias_reach;
    if (options.distance_bias != nullptr) {
      task.distance_bias = options.distance_bias + head * (2 * options.bias_reach + 1);
    }
    task.key_rows = k.row(first_row) + head / group * width;
    task.key_stride = k.stride;
    if (options.distance_vectors != nullptr) {
      SetDistanceVectors(*options.distance_vectors, head, heads, &task);
    }
    task.out = out.row(first_row - options.past) + head * width;
    task.out_stride = out.stride;
    task.scratch = thread_scratch<float>(thread);
    layout.kernels->attention(task);
  };
  // Short sequences make small units: several of them are one item.
  const int64_t units = static_cast<int64_t>(blocks.size()) * heads;
  const int64_t mean_length = q.rows / batch.num_sequences();
  const int64_t mean_queries = std::min(mean_length, kQueryBlock);
  const int64_t cost = std::max<int64_t>(1, mean_queries * (mean_length + 16) * width * 2);
  const int64_t chunk = std::max<int64_t>(1, kItemMultiplyAdds / cost);
  pool_.ParallelForWithThread((units + chunk - 1) / chunk, [&](int64_t item, int thread) {
    for (int64_t unit = item * chunk; unit < std::min(units, (item + 1) * chunk); ++unit) {
      run(unit, thread);
    }
  });
}

void CpuOps::Pool(ConstF32Matrix x, const RaggedView& batch, PoolingKind kind, F32Matrix y) {
  PERGOLA_DCHECK(batch.num_tokens() == x.rows && batch.num_sequences() == y.rows);
  PERGOLA_DCHECK(x.cols == y.cols);
  const int64_t mean_values = x.rows / std::max<int64_t>(1, y.rows) * x.cols;
  ForRowChunks(y.rows, mean_values, [&](int64_t begin, int64_t end, int) {
    for (int64_t seq = begin; seq < end; ++seq) {
      const int64_t first = batch.cu_seqlens[static_cast<size_t>(seq)];
      const int64_t last = batch.cu_seqlens[static_cast<size_t>(seq) + 1];
      if (kind == PoolingKind::kMean) {
        isa_.table->mean_rows(x.row(first), x.stride, last - first, x.cols, y.row(seq));
      } else {
        const int64_t row = kind == PoolingKind::kCls ? first : last - 1;
        std::copy_n(x.row(row), x.cols, y.row(seq));
      }
    }
  });
}

}  // namespace

std::unique_ptr<Ops> MakeCpuOps(const InstructionSet& isa, int num_threads) {
  return std::make_unique<CpuOps>(isa, num_threads);
}

}  // namespace pergola::kernels::cpu
