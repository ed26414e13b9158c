#include "kernels/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "kernels/converted_weight.h"
#include "kernels/dequantise.h"
#include "kernels/weight_checks.h"

namespace pergola::kernels {
namespace {

double Activate(Epilogue epilogue, double sum) {
  switch (epilogue) {
    case Epilogue::kGeluErf:
      return 0.5 * sum * std::erfc(-sum * M_SQRT1_2);
    case Epilogue::kGeluTanh: {
      const double inner = std::sqrt(2.0 / M_PI) * (sum + 0.044715 * sum * sum * sum);
      return sum / (1.0 + std::exp(-2.0 * inner));  // as 1 + tanh, without its cancellation
    }
    case Epilogue::kSilu:
      return sum / (1.0 + std::exp(-sum));
    case Epilogue::kRelu:
      return std::max(sum, 0.0);
    case Epilogue::kTanh:
      return std::tanh(sum);
    case Epilogue::kNone:
    case Epilogue::kAdd:
      break;
  }
  return sum;
}

class ReferenceWeight final : public LinearWeight {
 public:
  explicit ReferenceWeight(ConvertedWeight tensor) : tensor_(std::move(tensor)) {}
  int64_t outputs() const override { return tensor().rows(); }
  int64_t inputs() const override { return tensor().cols(); }
  DType dtype() const override { return tensor().dtype; }
  size_t owned_bytes() const override { return tensor_.owned_bytes(); }
  const TensorView& tensor() const { return tensor_.view(); }

 private:
  ConvertedWeight tensor_;  // what it views outlives this
};

double SumOfSquares(const float* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

// sums[t] = x[t] . weights, every sum in ascending order; eight rows at a time hide the latency of
// an addition.
void SumProducts(ConstF32Matrix x, const float* weights, double* sums) {
  constexpr int64_t kRows = 8;
  for (int64_t first = 0; first < x.rows; first += kRows) {
    const float* rows[kRows];
    for (int64_t t = 0; t < kRows; ++t) rows[t] = x.row(std::min(first + t, x.rows - 1));
    double chains[kRows] = {};
    for (int64_t i = 0; i < x.cols; ++i) {
      const double weight = weights[i];
      for (int64_t t = 0; t < kRows; ++t) chains[t] += static_cast<double>(rows[t][i]) * weight;
    }
    std::copy_n(chains, std::min(kRows, x.rows - first), sums + first);
  }
}

double Dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// What the distance adds to a score before scaling.
double DistanceTerms(const DistanceVectors& vectors, const AttentionOptions& options, int64_t head,
                     int64_t distance, const float* query, const float* key) {
  const int64_t reach = vectors.reach();
  const int64_t row = vectors.rows[std::clamp(distance, -reach, reach) + reach];
  const auto product = [&](const LinearWeight* weight, const float* with) {
    if (weight == nullptr) return 0.0;
    const TensorView& tensor = static_cast<const ReferenceWeight*>(weight)->tensor();
    const int64_t rows_per_head = tensor.rows() / options.num_heads;
    std::vector<float> vector(static_cast<size_t>(tensor.cols()));
    DequantiseRow(tensor.dtype, tensor.row(head * rows_per_head + row), tensor.cols(),
                  vector.data());
    return Dot(vector.data(), with, tensor.cols());
  };
  return product(vectors.keys, query) + product(vectors.queries, key);
}

// Which of one head's scores a query row sees, and the scores.
struct AttentionRow {
  int64_t first_key;  // in the sequence
  std::vector<double> weights;
};

AttentionRow SoftmaxRow(const float* query, ConstF32Matrix keys, int64_t position, int64_t head,
                        const AttentionOptions& options) {
  const int64_t first = std::max<int64_t>(0, position - static_cast<int64_t>(options.mask.left));
  const int64_t last =
      std::min<int64_t>(keys.rows - 1, position + static_cast<int64_t>(options.mask.right));
  AttentionRow row{first, {}};
  double max = -INFINITY;
  for (int64_t key = first; key <= last; ++key) {
    double score = Dot(query, keys.row(key), keys.cols);
    if (options.distance_vectors != nullptr) {
      score += DistanceTerms(*options.distance_vectors, options, head, key - position, query,
                             keys.row(key));
    }
    score *= options.scale;
    if (options.distance_bias != nullptr) {
      const int64_t reach = options.bias_reach;
      const int64_t distance = std::clamp(key - position, -reach, reach);
      score += options.distance_bias[head * (2 * reach + 1) + distance + reach];
    }
    row.weights.push_back(score);
    max = std::max(max, score);
  }
  double sum = 0;
  for (double& weight : row.weights) sum += weight = std::exp(weight - max);
  for (double& weight : row.weights) weight /= sum;
  return row;
}

class ReferenceOps final : public Ops {
 public:
  explicit ReferenceOps(int num_threads) : pool_(num_threads) {}

  std::string_view name() const override { return "reference"; }

  std::string numeric_class(DType dtype, const LinearOptions& options) const override {
    return WeightClassName(dtype, ComputedType(options.weights, dtype, 256)) +
           " x f32, f64 sums, reference";
  }

  ThreadPool& threads() override { return pool_; }

  Result<std::unique_ptr<LinearWeight>> PrepareLinear(TensorView weight,
                                                      const LinearOptions& options) override {
    PERGOLA_RETURN_IF_ERROR(CheckLinearWeight(weight));
    return std::unique_ptr<LinearWeight>(
        std::make_unique<ReferenceWeight>(ConvertedWeight(weight, options.weights)));
  }

  void Linears(ConstF32Matrix x, std::span<const LinearOutput> outputs) override {
    for (const LinearOutput& output : outputs) Multiply(x, output);
  }

  void Multiply(ConstF32Matrix x, const LinearOutput& product) {
    const TensorView& tensor = static_cast<const ReferenceWeight&>(*product.weight).tensor();
    const F32Matrix& y = product.y;
    PERGOLA_DCHECK(x.cols == tensor.cols() && y.cols == tensor.rows() && x.rows == y.rows);
    pool_.ParallelFor(tensor.rows(), [&](int64_t output) {
      std::vector<float> row(static_cast<size_t>(x.cols));
      DequantiseRow(tensor.dtype, tensor.row(output), x.cols, row.data());
      std::vector<double> sums(static_cast<size_t>(x.rows));
      SumProducts(x, row.data(), sums.data());
      for (int64_t t = 0; t < x.rows; ++t) {
        double sum = sums[static_cast<size_t>(t)];
        if (product.bias != nullptr) sum += product.bias[output];
        float& out = y.row(t)[output];
        const double old = product.epilogue == Epilogue::kAdd ? out : 0.0;
        out = static_cast<float>(old + Activate(product.epilogue, sum));
      }
    });
  }

  void Gather(TensorView table, std::span<const int32_t> ids, float scale, bool accumulate,
              F32Matrix y) override {
    PERGOLA_DCHECK(static_cast<int64_t>(ids.size()) == y.rows && table.cols() == y.cols);
    pool_.ParallelFor(y.rows, [&](int64_t t) {
      const int32_t id = ids[static_cast<size_t>(t)];
      PERGOLA_DCHECK(id >= 0 && id < table.rows());
      std::vector<float> row(static_cast<size_t>(y.cols));
      DequantiseRow(table.dtype, table.row(id), y.cols, row.data());
      for (int64_t col = 0; col < y.cols; ++col) {
        const float value = scale * row[static_cast<size_t>(col)];
        y.row(t)[col] = accumulate ? y.row(t)[col] + value : value;
      }
    });
  }

  void LayerNorm(ConstF32Matrix x, const float* weight, const float* bias, float epsilon,
                 F32Matrix y) override {
    pool_.ParallelFor(x.rows, [&](int64_t t) {
      const float* in = x.row(t);
      double mean = 0, variance = 0;
      for (int64_t col = 0; col < x.cols; ++col) mean += in[col];
      mean /= static_cast<double>(x.cols);
      for (int64_t col = 0; col < x.cols; ++col) variance += (in[col] - mean) * (in[col] - mean);
      const double scale = 1.0 / std::sqrt(variance / static_cast<double>(x.cols) + epsilon);
      for (int64_t col = 0; col < x.cols; ++col) {
        const double value = (in[col] - mean) * scale * weight[col];
        y.row(t)[col] = static_cast<float>(value + (bias == nullptr ? 0.0 : bias[col]));
      }
    });
  }

  void RmsNorm(ConstF32Matrix x, const float* weight, int64_t width, float epsilon,
               F32Matrix y) override {
    PERGOLA_DCHECK(x.cols % width == 0);
    pool_.ParallelFor(x.rows, [&](int64_t t) {
      for (int64_t begin = 0; begin < x.cols; begin += width) {
        const float* in = x.row(t) + begin;
        const double mean = SumOfSquares(in, width) / static_cast<double>(width);
        const double scale = 1.0 / std::sqrt(mean + epsilon);
        float* out = y.row(t) + begin;
        for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(in[i] * scale * weight[i]);
      }
    });
  }

  void RmsNormAdd(ConstF32Matrix x, const float* weight, float epsilon, F32Matrix y) override {
    pool_.ParallelFor(x.rows, [&](int64_t t) {
      const float* in = x.row(t);
      const double mean = SumOfSquares(in, x.cols) / static_cast<double>(x.cols);
      const double scale = 1.0 / std::sqrt(mean + epsilon);
      float* out = y.row(t);
      for (int64_t i = 0; i < x.cols; ++i) {
        out[i] = static_cast<float>(out[i] + in[i] * scale * weight[i]);
      }
    });
  }

  void Add(ConstF32Matrix x, F32Matrix y) override {
    pool_.ParallelFor(x.rows, [&](int64_t t) {
      for (int64_t col = 0; col < x.cols; ++col) y.row(t)[col] += x.row(t)[col];
    });
  }

  void GatedActivation(Epilogue activation, F32Matrix gate, ConstF32Matrix up) override {
    pool_.ParallelFor(gate.rows, [&](int64_t t) {
      for (int64_t col = 0; col < gate.cols; ++col) {
        float& value = gate.row(t)[col];
        value = static_cast<float>(Activate(activation, value) * up.row(t)[col]);
      }
    });
  }

  void Rope(F32Matrix x, int64_t head_width, const float* cos_sin,
            std::span<const int32_t> positions) override {
    PERGOLA_DCHECK(head_width % 2 == 0 && x.cols % head_width == 0);
    const int64_t half = head_width / 2;
    pool_.ParallelFor(x.rows, [&](int64_t t) {
      const float* cosines = cos_sin + positions[static_cast<size_t>(t)] * head_width;
      const float* sines = cosines + half;
      for (int64_t begin = 0; begin < x.cols; begin += head_width) {
        float* low = x.row(t) + begin;
        float* high = low + half;
        for (int64_t i = 0; i < half; ++i) {
          const double a = low[i], b = high[i];
          low[i] = static_cast<float>(a * cosines[i] - b * sines[i]);
          high[i] = static_cast<float>(a * sines[i] + b * cosines[i]);
        }
      }
    });
  }

  void Attention(ConstF32Matrix q, ConstF32Matrix k, ConstF32Matrix v, const RaggedView& batch,
                 const AttentionOptions& options, F32Matrix out) override {
    const int64_t width = options.head_width;
    const int64_t group = options.num_heads / options.num_kv_heads;
    pool_.ParallelFor(batch.num_sequences() * options.num_heads, [&](int64_t item) {
      const size_t seq = static_cast<size_t>(item / options.num_heads);
      const int64_t head = item % options.num_heads;
      const int64_t begin = batch.cu_seqlens[seq];
      const int64_t length = batch.cu_seqlens[seq + 1] - begin;
      const int64_t past = options.past;
      const int64_t column = head / group * width;
      const ConstF32Matrix keys = k.slice(begin, past + length).columns(column, width);
      const ConstF32Matrix values = v.slice(begin, past + length).columns(column, width);
      for (int64_t position = 0; position < length; ++position) {
        const float* query = q.row(begin + position) + head * width;
        const AttentionRow row = SoftmaxRow(query, keys, past + position, head, options);
        float* result = out.row(begin + position) + head * width;
        for (int64_t col = 0; col < width; ++col) {
          double sum = 0;
          for (size_t i = 0; i < row.weights.size(); ++i) {
            sum += row.weights[i] * values.row(row.first_key + static_cast<int64_t>(i))[col];
          }
          result[col] = static_cast<float>(sum);
        }
      }
    });
  }

  void Pool(ConstF32Matrix x, const RaggedView& batch, PoolingKind kind, F32Matrix y) override {
    pool_.ParallelFor(batch.num_sequences(), [&](int64_t seq) {
      const int64_t begin = batch.cu_seqlens[static_cast<size_t>(seq)];
      const int64_t end = batch.cu_seqlens[static_cast<size_t>(seq) + 1];
      for (int64_t col = 0; col < x.cols; ++col) {
        double value = 0;
        if (kind == PoolingKind::kMean) {
          for (int64_t t = begin; t < end; ++t) value += x.row(t)[col];
          value /= static_cast<double>(end - begin);
        } else {
          value = x.row(kind == PoolingKind::kCls ? begin : end - 1)[col];
        }
        y.row(seq)[col] = static_cast<float>(value);
      }
    });
  }

 private:
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<Ops> MakeReferenceOps(int num_threads) {
  return std::make_unique<ReferenceOps>(num_threads);
}

}  // namespace pergola::kernels
