#include "gateway/list_pieces.h"

#include <gtest/gtest.h>

namespace pergola::gateway {
namespace {

service::InferenceRequest List(std::vector<size_t> lengths) {
  service::InferenceRequest request;
  for (const size_t length : lengths) {
    request.sequences.push_back({.ids = std::vector<int32_t>(length, 1)});
  }
  return request;
}

service::ModelInfo Info() {
  service::ModelInfo info;
  info.widths[static_cast<size_t>(OutputKind::kEmbedding)] = 2;  // 8 bytes a row
  return info;
}

using Cuts = std::vector<size_t>;

TEST(ListPiecesTest, AShortListIsOnePiece) {
  EXPECT_EQ(CutList(Info(), List({3, 4}), 3, {}), (Cuts{0, 2}));
  EXPECT_EQ(CutList(Info(), List({}), 3, {}), (Cuts{0, 0}));
}

TEST(ListPiecesTest, ALongListIsSharedOutEvenly) {
  EXPECT_EQ(CutList(Info(), List({10, 10, 10, 10}), 2, {.tokens = 30}), (Cuts{0, 2, 4}));
  EXPECT_EQ(CutList(Info(), List({10, 10, 10, 10}), 2, {.tokens = 40}), (Cuts{0, 2, 4}));
}

TEST(ListPiecesTest, PiecesAreNotMadeTiny) {
  EXPECT_EQ(CutList(Info(), List({10, 10, 10, 10}), 2, {.tokens = 41}), (Cuts{0, 2, 4}));
  EXPECT_EQ(CutList(Info(), List({10, 10, 10, 10}), 2, {.tokens = 42}), (Cuts{0, 4}));
}

TEST(ListPiecesTest, OneSequenceOverTheLimitIsAPieceOfItsOwn) {
  EXPECT_EQ(CutList(Info(), List({1, 100, 1}), 1, {.tokens = 10}), (Cuts{0, 1, 2, 3}));
}

TEST(ListPiecesTest, AnswersStayWithinBytesWithOneReplica) {
  EXPECT_EQ(CutList(Info(), List({1, 1, 1, 1, 1}), 1, {.answer_bytes = 16}), (Cuts{0, 2, 4, 5}));
}

}  // namespace
}  // namespace pergola::gateway
