// Reference vectors of one sentence by well-known models, for the self-test of `pergola doctor`.
#pragma once

#include <span>
#include <string_view>

namespace pergola::cli {

inline constexpr std::string_view kSelfTestSentence = "Cats are small carnivorous mammals.";

// Unit length, by the reference library in f32; empty for a model that is not known. `model` is a
// name of the registry.
std::span<const float> SelfTestVector(std::string_view model);

}  // namespace pergola::cli
