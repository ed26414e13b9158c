// Pergola as a library: how alike are two sentences?
//
//   model=$(build/release/pergola pull all-MiniLM-L6-v2)  # prints its folder
//   build/dev/examples/similarity "$model" "A cat sleeps." "A kitten naps."
//
// scripts/test.sh builds it, scripts/quickstart.sh builds pergola.

#include <cstdio>

#include "pergola/pergola.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: similarity MODEL TEXT TEXT\n");
    return 2;
  }
  pergola::Result<pergola::Engine> engine = pergola::Engine::Open(argv[1]);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
    return 1;
  }
  pergola::Result<pergola::Embeddings> rows = engine->Embed({argv[2], argv[3]});
  if (!rows.ok()) {
    std::fprintf(stderr, "%s\n", rows.status().ToString().c_str());
    return 1;
  }
  std::printf("%.4f  (%s)\n", static_cast<double>(pergola::Dot((*rows)[0], (*rows)[1])),
              engine->Describe().c_str());
  return 0;
}
