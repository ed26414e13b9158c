#include "cli/predict_profile.h"

#include <gtest/gtest.h>

namespace pergola::cli {
namespace {

using std::chrono::milliseconds;

engine::Generation ThreeTokens() {
  engine::Generation generation;
  generation.ids = {1, 2, 3};
  generation.profile = {milliseconds(3), milliseconds(60), milliseconds(9), milliseconds(32),
                        milliseconds(72)};
  return generation;
}

TEST(PredictProfileTest, DividesByPasses) {
  const PredictProfile profile = ProfileOf(ThreeTokens(), 6, {});
  EXPECT_EQ(profile.decoded_tokens, 2);
  EXPECT_EQ(ProfileText(profile),
            "prefill 6 tokens 32.0 ms; decode 2 tokens 40.0 ms, 50.0 tokens/s\n"
            "per token: embed 1.000 ms, layers 20.000 ms, logits 3.000 ms\n");
  EXPECT_EQ(ProfileJson(profile),
            R"({"prompt_tokens":6,"decoded_tokens":2,"prefill_ms":32,"decode_ms":40,)"
            R"("tokens_per_second":50,)"
            R"("per_token":{"embed_ms":1,"layers_ms":20,"logits_ms":3}})");
}

TEST(PredictProfileTest, TellsWaitingFromComputing) {
  grid::RemoteTimes ffn;
  ffn.waited = milliseconds(45);
  ffn.computed = milliseconds(30);
  ffn.calls = 15;
  ffn.sent_bytes = 2000;
  ffn.received_bytes = 1000;
  const PredictProfile profile = ProfileOf(ThreeTokens(), 6, ffn);
  EXPECT_EQ(ProfileText(profile),
            "prefill 6 tokens 32.0 ms; decode 2 tokens 40.0 ms, 50.0 tokens/s\n"
            "per token: embed 1.000 ms, attention 5.000 ms, ffn 10.000 ms, transport 5.000 ms, "
            "logits 3.000 ms; 15 calls of 1000.0 us beside computing, 2.0 kB sent\n");
  EXPECT_EQ(ProfileJson(profile),
            R"({"prompt_tokens":6,"decoded_tokens":2,"prefill_ms":32,"decode_ms":40,)"
            R"("tokens_per_second":50,"per_token":{"embed_ms":1,"layers_ms":20,"attention_ms":5,)"
            R"("ffn_ms":10,"transport_ms":5,"logits_ms":3},)"
            R"("calls":15,"sent_bytes":2000,"received_bytes":1000})");
}

TEST(PredictProfileTest, HasNoSpeedWithoutDecoding) {
  engine::Generation generation;
  generation.profile.prefill = generation.profile.total = milliseconds(4);
  EXPECT_EQ(ProfileText(ProfileOf(generation, 3, {})),
            "prefill 3 tokens 4.0 ms\nper token: embed 0.000 ms, layers 0.000 ms, logits 0.000 "
            "ms\n");
}

}  // namespace
}  // namespace pergola::cli
