// What the parts of a split model cost beside computing: rows of a table, frames, and a hop.
//
//   grid_benchmark --benchmark_filter=BM_Hop
//
// The table has the shape of a 4B model's (2560 wide, 262,144 rows, f16) and random values. Each
// case checks its answer before its time counts. bench/split/run.py runs them with the rest.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/tensor.h"
#include "core/thread_pool.h"
#include "grid/frame.h"
#include "grid/frame_connection.h"
#include "grid/frame_server.h"
#include "kernels/dequantise.h"
#include "kernels/row_decoder.h"

namespace pergola::grid {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kWidth = 2560;
constexpr int64_t kVocab = 262144;

uint32_t Next(uint32_t* state) { return *state = *state * 1664525u + 1013904223u; }

// Random halves of magnitude 2^-8 to 1: finite, no subnormals.
const TensorView& Table() {
  static const std::vector<uint16_t> values = [] {
    std::vector<uint16_t> made(static_cast<size_t>(kWidth * kVocab));
    uint32_t state = 1;
    for (uint16_t& value : made) {
      const uint32_t bits = Next(&state) >> 8;
      value = static_cast<uint16_t>((bits & 0x83ff) | (7 + (bits >> 10) % 8) << 10);
    }
    return made;
  }();
  static const TensorView view = [] {
    TensorView table;
    table.data = reinterpret_cast<const std::byte*>(values.data());
    table.dtype = DType::kF16;
    table.shape = Shape{kVocab, kWidth};
    return table;
  }();
  return view;
}

std::vector<int32_t> RandomIds(int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  uint32_t state = 7;
  for (int32_t& id : ids) id = static_cast<int32_t>(Next(&state) >> 8) % kVocab;
  return ids;
}

// The work of an embed handler: a frame of rows of ids, decoded and scaled, over the last answer.
class EmbedHandler {
 public:
  // `threads`, if any, share the rows.
  EmbedHandler(size_t count, ThreadPool* threads)
      : count_(count), threads_(threads), ids_(RandomIds(static_cast<int64_t>(count * kTurns))) {}

  // Other rows each time, so that they come from memory.
  bool Answer() { return AnswerWith(turn_++ % kTurns); }
  bool IsRight() {
    const auto first = IdsOf(0);
    std::vector<float> expected(count_ * kWidth);
    for (size_t i = 0; i < count_; ++i) {
      kernels::DequantiseRow(DType::kF16, Table().row(first[i]), kWidth, &expected[i * kWidth]);
    }
    for (float& value : expected) value *= kScale;
    std::string wanted;
    const ConstF32Matrix rows(expected.data(), static_cast<int64_t>(count_), kWidth);
    const FrameHeader header{.kind = FrameKind::kEmbed, .answer = true, .type = PayloadType::kF32};
    return AppendRowsFrame(header, rows, &wanted).ok() && AnswerWith(0) && answer_ == wanted;
  }

 private:
  static constexpr size_t kTurns = 64;
  static constexpr float kScale = 50.5f;

  std::span<const int32_t> IdsOf(size_t turn) const {
    return std::span(ids_).subspan(turn * count_, count_);
  }
  bool AnswerWith(size_t turn) {
    const auto ids = IdsOf(turn);
    const auto fill = [&](F32Matrix rows, FrameHeader& header) {
      uint32_t* const crc = &header.payload_crc;
      *crc = 0;
      const size_t good =
          threads_ == nullptr
              ? kernels::DecodeRows(Table(), ids, kScale, rows.data, crc)
              : kernels::DecodeRows(*threads_, Table(), ids, kScale, rows.data, crc);
      return good == ids.size() ? OkStatus() : InternalError("not finite");
    };
    return FillFrame({.kind = FrameKind::kEmbed, .answer = true}, static_cast<int64_t>(count_),
                     kWidth, fill, &answer_)
        .ok();
  }

  const size_t count_;
  ThreadPool* const threads_;
  const std::vector<int32_t> ids_;
  size_t turn_ = 0;
  std::string answer_;
};

void BM_EmbedRows(benchmark::State& state) {
  EmbedHandler handler(static_cast<size_t>(state.range(0)), nullptr);
  if (!handler.IsRight()) return state.SkipWithError("wrong rows");
  for (auto _ : state) {
    if (!handler.Answer()) return state.SkipWithError("not finite");
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * kWidth * 6);
}
BENCHMARK(BM_EmbedRows)->Arg(1)->Arg(32)->Arg(128)->Arg(512);

// By the clock, as a client sees it: of so many threads, those beside the handler's asleep when it
// begins, as when a request comes over a network.
void BM_EmbedRowsShared(benchmark::State& state) {
  ThreadPool threads(static_cast<int>(state.range(1)));
  EmbedHandler handler(static_cast<size_t>(state.range(0)),
                       threads.num_threads() > 1 ? &threads : nullptr);
  if (!handler.IsRight()) return state.SkipWithError("wrong rows");
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const auto start = Clock::now();
    if (!handler.Answer()) return state.SkipWithError("not finite");
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * kWidth * 6);
}
BENCHMARK(BM_EmbedRowsShared)
    ->ArgNames({"rows", "threads"})
    ->ArgsProduct({{256, 512}, {1, 2}})
    ->UseManualTime();

// A frame of ids written and read: what a request costs both sides beside the network.
void BM_IdsFrame(benchmark::State& state) {
  const std::vector<int32_t> ids = RandomIds(state.range(0));
  FrameHeader header{.kind = FrameKind::kEmbed};
  header.rows = static_cast<uint32_t>(ids.size());
  std::string frame;
  for (auto _ : state) {
    frame.clear();
    AppendBytesFrame(header, {reinterpret_cast<const char*>(ids.data()), ids.size() * 4}, &frame);
    const std::span bytes = std::as_bytes(std::span(frame));
    const auto parsed = ParseFrameHeader(bytes.first(64));
    if (!parsed.ok() || !CheckPayload(*parsed, bytes.subspan(64)).ok()) {
      return state.SkipWithError("wrong frame");
    }
  }
}
BENCHMARK(BM_IdsFrame)->Arg(1)->Arg(512);

// A frame of one row written and read, by payload type.
void BM_RowFrame(benchmark::State& state) {
  const auto type = static_cast<PayloadType>(state.range(0));
  std::vector<float> row(kWidth), back(kWidth);
  uint32_t seed = 3;
  for (float& value : row) value = static_cast<float>(Next(&seed) >> 8) / 8388608.0f - 1;
  const FrameHeader header{.kind = FrameKind::kFfn, .type = type};
  std::string frame;
  for (auto _ : state) {
    frame.clear();
    const Status status = AppendRowsFrame(header, {row.data(), 1, kWidth}, &frame);
    const std::span bytes = std::as_bytes(std::span(frame));
    const auto parsed = ParseFrameHeader(bytes.first(64));
    if (!status.ok() || !parsed.ok() || !CheckPayload(*parsed, bytes.subspan(64)).ok() ||
        !DecodeRows(*parsed, bytes.subspan(64), {back.data(), 1, kWidth}).ok()) {
      return state.SkipWithError("wrong frame");
    }
  }
  for (size_t i = 0; i < row.size(); ++i) {
    if (std::abs(row[i] - back[i]) > 0.005f) return state.SkipWithError("wrong row");
  }
  state.SetLabel(std::string(PayloadTypeName(type)));
  state.counters["bytes"] = static_cast<double>(frame.size());
}
BENCHMARK(BM_RowFrame)->DenseRange(1, 3);

int Listen(sockaddr_in* address) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof *address;
  ::bind(socket, reinterpret_cast<sockaddr*>(address), size);
  ::listen(socket, 1);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(address), &size);
  return socket;
}

bool ReadAll(int socket, char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(socket, data, size);
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// Sends back messages of one size until the peer closes.
class Echo {
 public:
  explicit Echo(size_t size) : listener_(Listen(&address_)) {
    thread_ = std::thread([this, size] {
      const int peer = ::accept(listener_, nullptr, nullptr);
      SetNoDelay(peer);
      std::string message(size, '\0');
      while (ReadAll(peer, message.data(), size) &&
             ::write(peer, message.data(), size) == static_cast<ssize_t>(size)) {
      }
      ::close(peer);
    });
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    ::connect(socket_, reinterpret_cast<sockaddr*>(&address_), sizeof address_);
    SetNoDelay(socket_);
  }
  ~Echo() {
    ::close(socket_);
    thread_.join();
    ::close(listener_);
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  bool Turn(std::string* message) const {
    return ::write(socket_, message->data(), message->size()) ==
               static_cast<ssize_t>(message->size()) &&
           ReadAll(socket_, message->data(), message->size());
  }

 private:
  static void SetNoDelay(int socket) {
    const int one = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }

  sockaddr_in address_ = {};
  int listener_;
  int socket_ = -1;
  std::thread thread_;
};

double Median(std::vector<double>* values) {
  std::nth_element(values->begin(),
                   values->begin() + static_cast<std::ptrdiff_t>(values->size() / 2),
                   values->end());
  return (*values)[values->size() / 2];
}

// A row there and back through frames, server and connection, without computing; in turns with as
// many bytes through bare TCP. "beyond_us" is the difference of the medians: what a hop adds.
void BM_Hop(benchmark::State& state) {
  const int64_t width = state.range(0);
  auto server = FrameServer::Start(
      {}, [](const FrameHeader& request, std::span<const std::byte> payload, std::string* answer) {
        answer->clear();
        std::vector<float> values(size_t{request.rows} * request.width);
        const F32Matrix rows(values.data(), request.rows, request.width);
        PERGOLA_RETURN_IF_ERROR(DecodeRows(request, payload, rows));
        FrameHeader header = request;
        header.answer = true;
        return AppendRowsFrame(header, rows, answer);
      });
  auto connection = FrameConnection::Connect("127.0.0.1:" + std::to_string((*server)->port()),
                                             CallLimit{Clock::now() + std::chrono::seconds(5)});
  if (!connection.ok()) return state.SkipWithError("no connection");
  connection->SetLimit({});
  std::vector<float> row(static_cast<size_t>(width)), back(row.size());
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 97) - 48;
  FrameHeader request{.kind = FrameKind::kFfn, .type = PayloadType::kF32}, answer;
  std::string frame;
  std::vector<std::byte> payload;
  const auto hop = [&] {
    frame.clear();
    ++request.request_id;
    Status status = AppendRowsFrame(request, {row.data(), 1, width}, &frame);
    if (status.ok()) status = connection->Send(frame);
    if (status.ok()) status = connection->Receive(&answer, &payload);
    if (status.ok()) status = DecodeRows(answer, payload, {back.data(), 1, width});
    return status.ok() && answer.request_id == request.request_id;
  };
  if (!hop() || back != row) return state.SkipWithError("wrong answer");
  const Echo echo(frame.size());
  std::string message(frame.size(), 'x');
  std::vector<double> hops, echoes;
  const auto microseconds = [](Clock::time_point since) {
    return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
  };
  for (auto _ : state) {
    const auto start = Clock::now();
    if (!hop()) return state.SkipWithError("wrong answer");
    hops.push_back(microseconds(start));
    const auto again = Clock::now();
    if (!echo.Turn(&message)) return state.SkipWithError("echo failed");
    echoes.push_back(microseconds(again));
  }
  const double hop_us = Median(&hops), echo_us = Median(&echoes);
  state.counters["hop_us"] = hop_us;
  state.counters["echo_us"] = echo_us;
  state.counters["beyond_us"] = hop_us - echo_us;
}
BENCHMARK(BM_Hop)->Arg(640)->Arg(2560)->UseRealTime();

}  // namespace
}  // namespace pergola::grid
