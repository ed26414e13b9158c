#include "hub/model_reference.h"

namespace pergola::hub {
namespace {

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsNamePart(std::string_view part) {
  if (part.empty() || part.size() > 96 || !IsAlphanumeric(part.front())) return false;
  for (char c : part) {
    if (!IsAlphanumeric(c) && c != '.' && c != '_' && c != '-') return false;
  }
  return part.find("..") == std::string_view::npos;
}

}  // namespace

std::string ModelReference::ToString() const { return variant.empty() ? id : id + ":" + variant; }

std::string ModelReference::CachePath() const { return variant.empty() ? id : id + "@" + variant; }

Result<ModelReference> ParseModelReference(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view id = text.substr(0, colon);
  const size_t slash = id.find('/');
  const bool id_ok = slash != std::string_view::npos && IsNamePart(id.substr(0, slash)) &&
                     IsNamePart(id.substr(slash + 1));
  const bool variant_ok = colon == std::string_view::npos || IsNamePart(text.substr(colon + 1));
  if (!id_ok || !variant_ok) {
    return InvalidArgumentError(
        "not a model id: expected organisation/name or organisation/name:variant");
  }
  ModelReference reference{std::string(id), ""};
  if (colon != std::string_view::npos) reference.variant = text.substr(colon + 1);
  return reference;
}

}  // namespace pergola::hub
