// What is done to a text before it is cut: case, accents, Unicode forms, replacements.
//
//   auto normalizer = MakeBertNormalizer({.lowercase = true, .strip_accents = true});
//   normalizer->Apply(&text);
//
// One class per kind of the `normalizer` entry of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/normalized_text.h"
#include "tokenizers/split_pattern.h"

namespace pergola::tokenizers {

// How far a normaliser looks: decides where a long text may be cut so that its parts, normalised
// each for itself, give the same as the whole.
enum class NormalizerReach {
  kCodePoint,  // each code point for itself
  kNearby,     // a code point and the combining marks around it
  kSpaceRuns,  // likewise, and neighbouring white space
  kWholeText,  // start or end of the text, or a pattern of several code points
};

// Immutable and thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void Apply(NormalizedText* text) const = 0;
  virtual NormalizerReach reach() const = 0;
  // Places may depend on what was removed at the start of the text: see ShiftsOffsets().
  virtual bool may_shift_offsets() const { return false; }
  // All places in a text that starts with `text` are other ones than had its parts been normalised
  // each for itself.
  virtual bool ShiftsOffsets(std::string_view /*text*/) const { return false; }
};

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

std::unique_ptr<Normalizer> MakeBertNormalizer(const BertNormalizerOptions& options);
std::unique_ptr<Normalizer> MakeUnicodeNormalizer(UnicodeForm form);
std::unique_ptr<Normalizer> MakeLowercase();
// Removes all marks (no decomposition first).
std::unique_ptr<Normalizer> MakeStripAccents();
// Removes white space at the ends.
std::unique_ptr<Normalizer> MakeStrip(bool left, bool right);
// `pattern` is not empty.
std::unique_ptr<Normalizer> MakeReplace(std::string pattern, std::string content);
// Every match of `pattern` becomes `content`. `is_space_run`: only white space is matched.
std::unique_ptr<Normalizer> MakeReplaceMatches(std::unique_ptr<SplitPattern> pattern,
                                               std::string content, bool is_space_run);
// Before every text that is not empty.
std::unique_ptr<Normalizer> MakePrepend(std::string content);
std::unique_ptr<Normalizer> MakeNormalizerSequence(std::vector<std::unique_ptr<Normalizer>> parts);

}  // namespace pergola::tokenizers
