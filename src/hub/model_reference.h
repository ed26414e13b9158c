// The name of a model of a hub: "organisation/name", with ":variant" where one id holds several
// files of the same weights (quantisations).
#pragma once

#include <string>
#include <string_view>

#include "pergola/status.h"

namespace pergola::hub {

struct ModelReference {
  std::string id;       // "organisation/name"
  std::string variant;  // "" or for example "Q8_0": part of a .gguf file's name

  // "organisation/name" or "organisation/name:variant".
  std::string ToString() const;
  // Where the cache keeps it: "organisation/name" or "organisation/name@variant".
  std::string CachePath() const;

  friend bool operator==(const ModelReference&, const ModelReference&) = default;
};

// INVALID_ARGUMENT unless `text` is organisation/name[:variant]; each part has 1 to 96 characters
// of [A-Za-z0-9._-], starts with a letter or digit and has no "..".
Result<ModelReference> ParseModelReference(std::string_view text);

}  // namespace pergola::hub
