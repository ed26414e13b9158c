// A row's result depends on nothing but the row (for attention and pooling: its sequence), bit for
// bit: not on the rows around it, its place in the batch, the strides of the buffers, how often the
// call is made, or the number of threads. Every operation of every kernel set; docs/numerics.md
// numbers the rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/numeric_matcher.h"
#include "kernels/testing/kernel_sets.h"
#include "kernels/testing/random_distance_vectors.h"
#include "kernels/testing/random_tensors.h"

namespace pergola::kernels {
namespace {

using pergola::testing::BitEqual;
using testing::OwnedMatrix;
using testing::OwnedTensor;
using testing::Random;

class EqualityTest : public testing::KernelSetTest {
 protected:
  // Runs on `ops` over rows [begin, begin + count) of the inputs into `y`, whose rows start at 0.
  using RunRows = std::function<void(Ops& ops, int64_t begin, F32Matrix y)>;

  // All rows at once on one thread, against random cuts of the rows on 1, 2 and 3 threads, with
  // outputs of another stride. `initial` [rows, cols] is what y holds before (in-place operations
  // read it).
  void CheckRows(ConstF32Matrix initial, const RunRows& run) {
    Random random(77);
    OwnedMatrix whole = OwnedMatrix::Copy(initial);
    run(*sets_[0], 0, whole.view());
    for (const auto& ops : sets_) {
      for (int repeat = 0; repeat < 4; ++repeat) {
        const int64_t longest = repeat == 0   ? initial.rows
                                : repeat == 1 ? 1
                                              : random.Between(2, 40);
        for (int64_t begin = 0; begin < initial.rows;) {
          const int64_t count = std::min(initial.rows - begin, random.Between(1, longest));
          OwnedMatrix part =
              OwnedMatrix::Copy(initial.slice(begin, count), initial.cols + 1 + repeat);
          run(*ops, begin, part.view());
          ASSERT_TRUE(BitEqual(part.view(), whole.view().slice(begin, count)))
              << "rows from " << begin << " of " << initial.rows << ", "
              << ops->threads().num_threads() << " threads";
          begin += count;
        }
      }
    }
  }

  std::vector<std::unique_ptr<Ops>> sets_ = MakeSets();

 private:
  std::vector<std::unique_ptr<Ops>> MakeSets() const {
    std::vector<std::unique_ptr<Ops>> sets;
    for (int threads : {1, 2, 3}) sets.push_back(MakeSet(threads));
    return sets;
  }
};

INSTANTIATE_TEST_SUITE_P(PerIsa, EqualityTest, ::testing::ValuesIn(testing::TestedSets()),
                         testing::SetName);

TEST_P(EqualityTest, Linear) {
  Random random(1);
  const int64_t rows = GetParam() == "reference" ? 20 : 120;  // it is slow, and plain
  struct Kind {
    DType dtype;
    LinearRole role = LinearRole::kOther;
    WeightType computed = WeightType::kAsIs;
    bool in_place = false;
  };
  for (const auto [dtype, role, computed, in_place] :
       {Kind{DType::kF32}, Kind{DType::kF16}, Kind{DType::kBF16}, Kind{DType::kQ8_0},
        Kind{DType::kQ4_0}, Kind{DType::kQ4_0, LinearRole::kUp}, Kind{DType::kQ6_K},
        Kind{DType::kQ5_0}, Kind{DType::kQ5_K}, Kind{DType::kQ4_K}, Kind{DType::kQ2_K},
        Kind{DType::kF32, LinearRole::kOther, WeightType::kInt8},
        Kind{DType::kF32, LinearRole::kOther, WeightType::kAsIs, true},
        Kind{DType::kF16, LinearRole::kOther, WeightType::kAsIs, true},
        Kind{DType::kBF16, LinearRole::kOther, WeightType::kAsIs, true},
        Kind{DType::kQ8_0, LinearRole::kOther, WeightType::kAsIs, true}}) {
    for (auto [outputs, inputs] : {std::pair<int64_t, int64_t>{200, 768}, {37, 1024}}) {
      SCOPED_TRACE(std::string(DTypeName(dtype)) + " N " + std::to_string(outputs));
      const OwnedTensor weight(random, dtype, outputs, inputs);
      const OwnedMatrix x = OwnedMatrix::Of(random, rows, inputs, inputs + 5);
      const std::vector<float> bias = random.Values(outputs);
      const OwnedMatrix initial = OwnedMatrix::Of(random, rows, outputs);
      std::vector<std::unique_ptr<LinearWeight>> weights;  // by the number of threads - 1
      for (const auto& ops : sets_) {
        auto prepared = ops->PrepareLinear(
            weight.view(), {.role = role, .in_place = in_place, .weights = computed});
        ASSERT_TRUE(prepared.ok()) << prepared.status().ToString();
        weights.push_back(std::move(prepared).value());
      }
      for (Epilogue epilogue : {Epilogue::kGeluErf, Epilogue::kAdd}) {
        CheckRows(initial.view(), [&](Ops& ops, int64_t begin, F32Matrix y) {
          const LinearWeight& own = *weights[static_cast<size_t>(ops.threads().num_threads() - 1)];
          ops.Linear(x.view().slice(begin, y.rows), own, bias.data(), epilogue, y);
        });
      }
    }
  }
}

// Products of the same rows together: of one format, and of two.
TEST_P(EqualityTest, LinearsAreTheLinearOnes) {
  Random random(7);
  Ops& ops = *sets_.back();
  const OwnedMatrix x = OwnedMatrix::Of(random, 50, 256, 261);
  std::deque<OwnedTensor> tensors;
  std::vector<std::unique_ptr<LinearWeight>> weights;
  for (const auto& [dtype, outputs] : {std::pair<DType, int64_t>{DType::kF32, 70},
                                       {DType::kQ8_0, 33},
                                       {DType::kQ4_0, 64},
                                       {DType::kF32, 5}}) {
    tensors.emplace_back(random, dtype, outputs, 256);
    auto prepared = ops.PrepareLinear(tensors.back().view(), {.role = LinearRole::kUp});
    ASSERT_TRUE(prepared.ok()) << prepared.status().ToString();
    weights.push_back(std::move(prepared).value());
  }
  const std::vector<float> bias = random.Values(70);
  std::deque<OwnedMatrix> together, apart;
  std::vector<LinearOutput> outputs;
  for (const auto& weight : weights) {
    together.push_back(OwnedMatrix::Of(random, 50, weight->outputs()));
    apart.push_back(OwnedMatrix::Copy(together.back().view()));
    const bool first = weight == weights.front();
    outputs.push_back({weight.get(), first ? bias.data() : nullptr,
                       first ? Epilogue::kAdd : Epilogue::kSilu, together.back().view()});
  }
  ops.Linears(x.view(), outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    ops.Linear(x.view(), *outputs[i].weight, outputs[i].bias, outputs[i].epilogue, apart[i].view());
    EXPECT_TRUE(BitEqual(together[i].view(), apart[i].view())) << "output " << i;
  }
}

// A shorter matrix of the same rows: columns are independent chains, so N never matters either.
TEST_P(EqualityTest, LinearColumnsAreIndependent) {
  Random random(2);
  for (DType dtype : {DType::kF32, DType::kQ8_0}) {
    const OwnedTensor weight(random, dtype, 100, 512);
    TensorView first = weight.view();
    first.shape = {23, 512};
    const OwnedMatrix x = OwnedMatrix::Of(random, 30, 512);
    OwnedMatrix all(30, 100), some(30, 23);
    auto prepared = sets_[0]->PrepareLinear(weight.view(), {});
    auto prepared_first = sets_[1]->PrepareLinear(first, {});
    ASSERT_TRUE(prepared.ok() && prepared_first.ok());
    sets_[0]->Linear(x.view(), **prepared, nullptr, Epilogue::kNone, all.view());
    sets_[1]->Linear(x.view(), **prepared_first, nullptr, Epilogue::kNone, some.view());
    EXPECT_TRUE(BitEqual(some.view(), all.view().columns(0, 23)));
  }
}

TEST_P(EqualityTest, Norms) {
  Random random(3);
  for (int64_t cols : {24, 390, 768}) {
    const OwnedMatrix x = OwnedMatrix::Of(random, 90, cols, cols + 3);
    const std::vector<float> weight = random.Values(cols), bias = random.Values(cols);
    const OwnedMatrix initial = OwnedMatrix::Of(random, 90, cols);
    CheckRows(initial.view(), [&](Ops& ops, int64_t begin, F32Matrix y) {
      ops.LayerNorm(x.view().slice(begin, y.rows), weight.data(), bias.data(), 1e-5f, y);
    });
    CheckRows(initial.view(), [&](Ops& ops, int64_t begin, F32Matrix y) {
      ops.RmsNorm(x.view().slice(begin, y.rows), weight.data(), cols / 6, 1e-6f, y);
    });
    CheckRows(initial.view(), [&](Ops& ops, int64_t begin, F32Matrix y) {
      ops.RmsNormAdd(x.view().slice(begin, y.rows), weight.data(), 1e-6f, y);
    });
  }
}

TEST_P(EqualityTest, ElementwiseOperations) {
  Random random(4);
  for (int64_t cols : {24, 102, 768}) {
    const OwnedMatrix x = OwnedMatrix::Of(random, 90, cols, cols + 3);
    const OwnedMatrix initial = OwnedMatrix::Of(random, 90, cols);
    const std::vector<float> cos_sin = random.Values(100 * cols / 3);
    std::vector<int32_t> positions;
    for (int i = 0; i < 90; ++i) positions.push_back(static_cast<int32_t>(random.Between(0, 99)));
    CheckRows(initial.view(), [&](Ops& ops, int64_t begin, F32Matrix y) {
      ops.Add(x.view().slice(begin, y.rows), y);
    });
    for (Epilogue activation : {Epilogue::kGeluErf, Epilogue::kGeluTanh, Epilogue::kSilu}) {
      CheckRows(initial.view(), [&](Ops& ops, int64_t begin, F32Matrix y) {
        ops.GatedActivation(activation, y, x.view().slice(begin, y.rows));
      });
    }
    CheckRows(initial.view(), [&](Ops& ops, int64_t begin, F32Matrix y) {
      ops.Rope(
          y, cols / 3, cos_sin.data(),
          std::span(positions).subspan(static_cast<size_t>(begin), static_cast<size_t>(y.rows)));
    });
  }
}

// A value's result doesn't depend on its column: a masked tail runs the code of a full vector.
TEST_P(EqualityTest, TailsRunTheSameCode) {
  Random random(5);
  const std::vector<float> gate = random.Values(200), up = random.Values(200);
  for (Epilogue activation :
       {Epilogue::kGeluErf, Epilogue::kGeluTanh, Epilogue::kSilu, Epilogue::kTanh}) {
    OwnedMatrix whole = OwnedMatrix::Copy({gate.data(), 1, 200});
    sets_[0]->GatedActivation(activation, whole.view(), {up.data(), 1, 200});
    for (int64_t begin = 0; begin < 40; ++begin) {
      for (int64_t count : {1, 3, 8, 15, 17, 33}) {
        OwnedMatrix part = OwnedMatrix::Copy({gate.data() + begin, 1, count});
        sets_[0]->GatedActivation(activation, part.view(), {up.data() + begin, 1, count});
        ASSERT_TRUE(BitEqual(part.view(), whole.view().columns(begin, count))) << begin;
      }
    }
  }
}

TEST_P(EqualityTest, Gather) {
  Random random(6);
  const OwnedMatrix initial = OwnedMatrix::Of(random, 90, 96);
  std::vector<int32_t> ids;
  for (int i = 0; i < 90; ++i) ids.push_back(static_cast<int32_t>(random.Between(0, 30)));
  for (DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    const OwnedTensor table(random, dtype, 31, 96);
    CheckRows(initial.view(), [&](Ops& ops, int64_t begin, F32Matrix y) {
      ops.Gather(table.view(),
                 std::span(ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(y.rows)),
                 1.7f, true, y);
    });
  }
}

// Sequences of many lengths in one batch, against each of them alone and in the reverse order.
class SequenceEqualityTest : public EqualityTest {
 protected:
  static std::vector<int32_t> Offsets(const std::vector<int32_t>& lengths) {
    std::vector<int32_t> offsets = {0};
    for (int32_t length : lengths) offsets.push_back(offsets.back() + length);
    return offsets;
  }
  // Rows of the sequences of `source` (lengths `lengths`) in the reverse order of sequences.
  static OwnedMatrix Reversed(ConstF32Matrix source, const std::vector<int32_t>& lengths) {
    OwnedMatrix reversed(source.rows, source.cols, source.cols + 2);
    int64_t from = source.rows, to = 0;
    for (size_t i = lengths.size(); i-- > 0;) {
      from -= lengths[i];
      for (int64_t row = 0; row < lengths[i]; ++row) {
        std::copy_n(source.row(from + row), source.cols, reversed.view().row(to + row));
      }
      to += lengths[i];
    }
    return reversed;
  }

  const std::vector<int32_t> lengths_ = {1, 130, 7, 48, 16, 49, 3, 200, 2, 64, 65, 15};
};

INSTANTIATE_TEST_SUITE_P(PerIsa, SequenceEqualityTest, ::testing::ValuesIn(testing::TestedSets()),
                         testing::SetName);

TEST_P(SequenceEqualityTest, Attention) {
  Random random(7);
  const std::vector<int32_t> offsets = Offsets(lengths_);
  std::vector<int32_t> reversed_lengths(lengths_.rbegin(), lengths_.rend());
  const std::vector<int32_t> reversed_offsets = Offsets(reversed_lengths);
  const std::vector<float> bias = random.Values(4 * 41);
  struct Shape {
    int64_t heads, kv_heads, width;
    AttentionMask mask;
    bool with_bias, with_vectors = false, round_to_bf16 = false;
  };
  for (const Shape& shape :
       {Shape{4, 4, 32, {}, false}, Shape{3, 1, 12, {}, true}, Shape{2, 1, 24, {20, 20}, false},
        Shape{2, 2, 64, {INT32_MAX, 0}, false}, Shape{3, 3, 24, {}, false, true},
        Shape{4, 2, 24, {}, true, false, true}}) {
    SCOPED_TRACE("W " + std::to_string(shape.width));
    const int64_t q_width = shape.heads * shape.width, kv_width = shape.kv_heads * shape.width;
    const OwnedMatrix q = OwnedMatrix::Of(random, offsets.back(), q_width);
    const OwnedMatrix k = OwnedMatrix::Of(random, offsets.back(), kv_width, kv_width + 4);
    const OwnedMatrix v = OwnedMatrix::Of(random, offsets.back(), kv_width);
    AttentionOptions options;
    options.num_heads = shape.heads;
    options.num_kv_heads = shape.kv_heads;
    options.head_width = shape.width;
    options.scale = 0.3f;
    options.mask = shape.mask;
    options.distance_bias = shape.with_bias ? bias.data() : nullptr;
    options.bias_reach = 20;
    options.round_to_bf16 = shape.round_to_bf16;
    const testing::RandomDistanceVectors vectors(random, shape.heads, shape.width, 70);
    const auto prepared = vectors.For(*sets_[0]);  // any Ops of the same set reads them
    if (shape.with_vectors) options.distance_vectors = &prepared.vectors;
    OwnedMatrix together(offsets.back(), q_width);
    sets_[0]->Attention(q.view(), k.view(), v.view(), {offsets}, options, together.view());
    const OwnedMatrix together_reversed = Reversed(together.view(), lengths_);
    const OwnedMatrix q2 = Reversed(q.view(), lengths_), k2 = Reversed(k.view(), lengths_),
                      v2 = Reversed(v.view(), lengths_);
    for (const auto& ops : sets_) {
      OwnedMatrix turned(offsets.back(), q_width, q_width + 3);
      ops->Attention(q2.view(), k2.view(), v2.view(), {reversed_offsets}, options, turned.view());
      ASSERT_TRUE(BitEqual(turned.view(), together_reversed.view()));
      for (size_t seq = 0; seq < lengths_.size(); ++seq) {
        const int64_t begin = offsets[seq], length = lengths_[seq];
        const std::vector<int32_t> one = {0, lengths_[seq]};
        OwnedMatrix alone(length, q_width);
        ops->Attention(q.view().slice(begin, length), k.view().slice(begin, length),
                       v.view().slice(begin, length), {one}, options, alone.view());
        ASSERT_TRUE(BitEqual(alone.view(), together.view().slice(begin, length)))
            << "sequence of length " << length;
      }
    }
  }
}

TEST_P(SequenceEqualityTest, Pool) {
  Random random(8);
  const std::vector<int32_t> offsets = Offsets(lengths_);
  const int64_t sequences = static_cast<int64_t>(lengths_.size());
  for (int64_t cols : {24, 390}) {
    const OwnedMatrix x = OwnedMatrix::Of(random, offsets.back(), cols, cols + 1);
    OwnedMatrix together(sequences, cols);
    sets_[0]->Pool(x.view(), {offsets}, PoolingKind::kMean, together.view());
    for (const auto& ops : sets_) {
      for (int64_t seq = 0; seq < sequences; ++seq) {
        const int32_t length = lengths_[static_cast<size_t>(seq)];
        const std::vector<int32_t> one = {0, length};
        OwnedMatrix alone(1, cols, cols + 2);
        ops->Pool(x.view().slice(offsets[static_cast<size_t>(seq)], length), {one},
                  PoolingKind::kMean, alone.view());
        ASSERT_TRUE(BitEqual(alone.view(), together.view().slice(seq, 1)));
      }
    }
  }
}

}  // namespace
}  // namespace pergola::kernels
