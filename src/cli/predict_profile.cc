#include "cli/predict_profile.h"

#include <algorithm>
#include <cstdio>

#include "core/json_text.h"

namespace pergola::cli {
namespace {

double Milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double TokensPerSecond(const PredictProfile& profile) {
  if (profile.decoded_tokens == 0 || profile.decode_ms <= 0) return 0;
  return 1000 * static_cast<double>(profile.decoded_tokens) / profile.decode_ms;
}

void AppendNumber(const char* name, double value, std::string* out) {
  *out += out->back() == '{' ? "\"" : ",\"";
  *out += name;
  *out += "\":";
  AppendJsonFloat(static_cast<float>(value), out);
}

void AppendInteger(const char* name, uint64_t value, std::string* out) {
  *out += out->back() == '{' ? "\"" : ",\"";
  *out += name;
  *out += "\":" + std::to_string(value);
}

}  // namespace

PredictProfile ProfileOf(const engine::Generation& generation, size_t prompt_tokens,
                         const std::optional<grid::RemoteTimes>& ffn) {
  const engine::GenerationProfile& times = generation.profile;
  PredictProfile profile;
  profile.prompt_tokens = prompt_tokens;
  profile.decoded_tokens = std::max<int64_t>(0, static_cast<int64_t>(generation.ids.size()) - 1);
  profile.passes = 1 + profile.decoded_tokens;
  profile.prefill_ms = Milliseconds(times.prefill);
  profile.decode_ms = Milliseconds(times.total) - profile.prefill_ms;
  profile.embed_ms = Milliseconds(times.embed);
  profile.layers_ms = Milliseconds(times.layers);
  profile.logits_ms = Milliseconds(times.head);
  if (!ffn) return profile;
  RemoteLayers remote;
  remote.attention_ms = Milliseconds(times.layers - ffn->waited);
  remote.ffn_ms = Milliseconds(ffn->computed);
  remote.transport_ms = Milliseconds(ffn->waited - ffn->computed);
  remote.calls = ffn->calls;
  remote.sent_bytes = ffn->sent_bytes;
  remote.received_bytes = ffn->received_bytes;
  profile.remote = remote;
  return profile;
}

std::string ProfileText(const PredictProfile& profile) {
  char line[320];
  std::snprintf(line, sizeof line, "prefill %zu tokens %.1f ms", profile.prompt_tokens,
                profile.prefill_ms);
  std::string text = line;
  if (profile.decoded_tokens > 0) {
    std::snprintf(line, sizeof line, "; decode %lld tokens %.1f ms, %.1f tokens/s",
                  static_cast<long long>(profile.decoded_tokens), profile.decode_ms,
                  TokensPerSecond(profile));
    text += line;
  }
  const auto passes = static_cast<double>(profile.passes);
  if (!profile.remote) {
    std::snprintf(line, sizeof line, "\nper token: embed %.3f ms, layers %.3f ms, logits %.3f ms\n",
                  profile.embed_ms / passes, profile.layers_ms / passes,
                  profile.logits_ms / passes);
    return text + line;
  }
  const RemoteLayers& remote = *profile.remote;
  const auto calls = static_cast<double>(std::max<int64_t>(1, remote.calls));
  std::snprintf(line, sizeof line,
                "\nper token: embed %.3f ms, attention %.3f ms, ffn %.3f ms, transport %.3f ms, "
                "logits %.3f ms; %lld calls of %.1f us beside computing, %.1f kB sent\n",
                profile.embed_ms / passes, remote.attention_ms / passes, remote.ffn_ms / passes,
                remote.transport_ms / passes, profile.logits_ms / passes,
                static_cast<long long>(remote.calls), 1000 * remote.transport_ms / calls,
                static_cast<double>(remote.sent_bytes) / 1000);
  return text + line;
}

std::string ProfileJson(const PredictProfile& profile) {
  const auto passes = static_cast<double>(profile.passes);
  std::string out = "{";
  AppendInteger("prompt_tokens", profile.prompt_tokens, &out);
  AppendInteger("decoded_tokens", static_cast<uint64_t>(profile.decoded_tokens), &out);
  AppendNumber("prefill_ms", profile.prefill_ms, &out);
  AppendNumber("decode_ms", profile.decode_ms, &out);
  AppendNumber("tokens_per_second", TokensPerSecond(profile), &out);
  std::string per_token = "{";
  AppendNumber("embed_ms", profile.embed_ms / passes, &per_token);
  AppendNumber("layers_ms", profile.layers_ms / passes, &per_token);
  if (profile.remote) {
    AppendNumber("attention_ms", profile.remote->attention_ms / passes, &per_token);
    AppendNumber("ffn_ms", profile.remote->ffn_ms / passes, &per_token);
    AppendNumber("transport_ms", profile.remote->transport_ms / passes, &per_token);
  }
  AppendNumber("logits_ms", profile.logits_ms / passes, &per_token);
  out += ",\"per_token\":" + per_token + "}";
  if (profile.remote) {
    AppendInteger("calls", static_cast<uint64_t>(profile.remote->calls), &out);
    AppendInteger("sent_bytes", profile.remote->sent_bytes, &out);
    AppendInteger("received_bytes", profile.remote->received_bytes, &out);
  }
  return out + "}";
}

}  // namespace pergola::cli
