#include "kernels/row_decoder.h"

#include <algorithm>
#include <array>

#include "core/finite.h"
#include "kernels/checksum.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/panel_weight.h"
#include "kernels/cpu/vec/pages-inl.h"
#include "kernels/dequantise.h"
#include "kernels/select.h"

namespace pergola::kernels {
namespace {

// Rows of many ids lie anywhere, and no prefetcher finds the next one. Two rows ahead is far
// enough: 512 rows of 2560 halves decode 1.3 times as fast.
constexpr size_t kRowsAhead = 2;

// The pages of a later one: finding a page takes as long as fetching a line, and nothing is fetched
// meanwhile (512 rows: 1.1 times).
constexpr size_t kPagesAhead = 8;

// What one thread decodes at a time: some 10 us, long beside how a part begins, with rows that
// nobody has fetched, and short beside the whole, whose last part somebody waits for.
constexpr size_t kPartBytes = size_t{256} << 10;
constexpr size_t kMaxParts = 64;

void PrefetchRow(const TensorView& table, int64_t row) {
  constexpr int64_t kLine = 64;
  const std::byte* const bytes = table.row(row);
  // To the second-level cache: two rows of a wide table are more than half of the first.
  for (int64_t at = 0; at < table.row_bytes(); at += kLine) __builtin_prefetch(bytes + at, 0, 2);
}

void DecodeRow(const TensorView& table, int64_t row, float scale, float* out) {
  const int64_t cols = table.cols();
  if (const cpu::RowDecoder decode = cpu::RowDecoderOf(BestKernelTable(), table.dtype)) {
    return decode(table.row(row), cols, scale, out);
  }
  DequantiseRow(table.dtype, table.row(row), cols, out);
  for (int64_t col = 0; col < cols; ++col) out[col] *= scale;
}

size_t DecodeInPasses(const TensorView& table, std::span<const int32_t> ids, float scale,
                      float* out, uint32_t* crc) {
  const auto cols = static_cast<size_t>(table.cols());
  for (size_t i = 0; i < ids.size(); ++i, out += cols) {
    if (i + kPagesAhead < ids.size()) FindPages(table.row(ids[i + kPagesAhead]), table.row_bytes());
    if (i + kRowsAhead < ids.size()) PrefetchRow(table, ids[i + kRowsAhead]);
    DecodeRow(table, ids[i], scale, out);
    const std::span<const float> row(out, cols);
    if (!AllFinite(row)) return i;
    *crc = Crc32c(std::as_bytes(row), *crc);
  }
  return ids.size();
}

}  // namespace

size_t DecodeRows(const TensorView& table, std::span<const int32_t> ids, float scale, float* out,
                  uint32_t* crc) {
  static const bool has_send = HasFoldedChecksum(BestKernelTable());
  const cpu::RowSender send = cpu::RowSenderOf(BestKernelTable(), table.dtype);
  if (!has_send || send == nullptr) return DecodeInPasses(table, ids, scale, out, crc);
  const int64_t cols = table.cols();
  cpu::SentRow task = {};
  task.count = cols;
  task.scale = scale;
  task.y = out;
  task.crc = ~*crc;
  for (const int32_t id : ids.first(std::min(kPagesAhead, ids.size()))) {
    FindPages(table.row(id), table.row_bytes());
  }
  for (size_t i = 0; i < ids.size(); ++i, task.y += cols) {
    if (i + kPagesAhead < ids.size()) FindPages(table.row(ids[i + kPagesAhead]), table.row_bytes());
    task.row = table.row(ids[i]);
    task.next = table.row(ids[std::min(i + kRowsAhead, ids.size() - 1)]);
    send(task);
    if (!task.finite) return i;
    *crc = ~task.crc;
  }
  return ids.size();
}

size_t DecodeRows(ThreadPool& threads, const TensorView& table, std::span<const int32_t> ids,
                  float scale, float* out, uint32_t* crc) {
  const auto cols = static_cast<size_t>(table.cols());
  const size_t row_bytes = cols * sizeof(float);
  const size_t parts = std::clamp<size_t>(ids.size() * row_bytes / kPartBytes, 1, kMaxParts);
  const auto begin = [&](size_t part) { return ids.size() * part / parts; };
  struct Decoded {
    size_t rows = 0;
    uint32_t crc = 0;
  };
  std::array<Decoded, kMaxParts> decoded;
  const ThreadPool::Pass pass(threads);
  threads.ParallelFor(static_cast<int64_t>(parts), [&](int64_t item) {
    const auto part = static_cast<size_t>(item);
    const auto own = ids.subspan(begin(part), begin(part + 1) - begin(part));
    Decoded result;
    result.rows = DecodeRows(table, own, scale, out + begin(part) * cols, &result.crc);
    decoded[part] = result;
  });
  for (size_t part = 0; part < parts; ++part) {
    *crc = JoinCrc32c(*crc, decoded[part].crc, decoded[part].rows * row_bytes);
    const size_t end = begin(part) + decoded[part].rows;
    if (end != begin(part + 1)) return end;
  }
  return ids.size();
}

}  // namespace pergola::kernels
