#include "cli/slice_card.h"

#include "hub/file_sink.h"

namespace pergola::cli {
namespace {

std::string LayersOf(const formats::SliceFacts& facts) {
  return std::to_string(facts.first_layer) + "-" + std::to_string(facts.last_layer);
}

bool HasLayers(const formats::SliceFacts& facts) { return facts.last_layer >= facts.first_layer; }

std::string PartText(const formats::SliceFacts& facts) {
  if (facts.part == "embed") return "the embedding table, the projection and the tokenizer";
  if (facts.part == "head") return "the final norm and the projection";
  if (facts.part == "ffn") return "the feed-forward layers " + LayersOf(facts);
  if (facts.part == "attention") return "attention and norms of all layers, and the tokenizer";
  return "what a client computes: attention, norms and the tokenizer";
}

// What runs with this slice as `folder`.
std::string CommandOf(const formats::SliceFacts& facts, const std::string& folder) {
  if (facts.part == "embed" || facts.part == "ffn") {
    return "pergola serve --role " + facts.part + " --model " + folder + " --join ROUTER:42670";
  }
  if (facts.part == "head") return "pergola inspect " + folder;
  return "pergola predict --model " + folder +
         " --attention-only --grid pergola://ROUTER:42671 --prompt '...'";
}

// A YAML string in double quotes.
std::string Yaml(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return out + "\"";
}

}  // namespace

std::string PublishedName(const formats::SliceFacts& facts) {
  std::string name = facts.model.substr(facts.model.rfind('/') + 1);  // npos + 1: all of it
  for (char& letter : name) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' ||
                       letter == '.';
    if (!plain) letter = '-';
  }
  if (name.empty() || name.front() == '.') name = "model" + name;
  name += "-" + facts.part;
  if (HasLayers(facts)) name += "-" + LayersOf(facts);
  return name;
}

std::string SliceCard(const formats::SliceFacts& facts, const hub::SliceIndex& index,
                      const std::string& base) {
  const std::string& model = base.empty() ? facts.model : base;
  std::string out = "---\nlibrary_name: pergola\nbase_model: " + Yaml(model) +
                    "\ntags:\n- pergola-slice\n- " + Yaml("part-" + facts.part) + "\n---\n\n";
  out += "# " + index.slice.name + "\n\nA slice of `" + model + "`: " + PartText(facts) +
         ", for a model over several machines. The license is that of the base model.\n\n";
  out += "| | |\n|---|---|\n| part | " + facts.part + " |\n";
  if (HasLayers(facts)) out += "| layers | " + LayersOf(facts) + " |\n";
  out += "| layers of the model | " + std::to_string(facts.num_layers) + " |\n| width | " +
         std::to_string(facts.hidden_size) + " |\n| vocabulary | " +
         std::to_string(facts.vocab_size) + " |\n| weights | " + facts.quantisation +
         " |\n| size | " + hub::HumanBytes(index.slice.bytes) + " |\n| identity | `" +
         facts.identity + "` |\n\n";
  out += "    " + CommandOf(facts, index.slice.name) + "\n\n";
  out +=
      "Parts work together when their identity is the same.\n\n| file | bytes | SHA-256 |\n"
      "|---|---|---|\n";
  for (const hub::RemoteFile& file : index.files) {
    out += "| " + file.path + " | " + std::to_string(file.bytes) + " | `" + file.sha256 + "` |\n";
  }
  return out;
}

}  // namespace pergola::cli
