#include "engine/gguf_contents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/testing/temp_folder.h"
#include "engine/local_runner.h"
#include "engine/model.h"
#include "engine/quantiser.h"

namespace pergola::engine {
namespace {

namespace fs = std::filesystem;

std::string Tiny(const std::string& name) {
  return std::string(PERGOLA_TEST_DATA) + "/golden/tiny/" + name;
}

// [texts, E], each by its own model's tokenizer, before normalisation.
std::vector<float> Embed(const Model& model, const std::vector<std::string>& texts) {
  LocalRunner runner(model);
  std::vector<float> values;
  for (const std::string& text : texts) {
    tokenizers::Encoding encoding;
    EXPECT_TRUE(model.tokenizer()->Encode(text, {.max_tokens = 64}, &encoding).ok());
    const Sequence sequence{.ids = encoding.ids};
    const SequenceInput input{&sequence};
    auto outputs = runner.Run({&input, 1});
    if (!outputs.ok()) {
      ADD_FAILURE() << outputs.status().ToString();
      return {};
    }
    const ConstF32Matrix row = *(*outputs)->Rows(0, OutputKind::kEmbedding);
    values.insert(values.end(), row.data, row.data + row.cols);
  }
  return values;
}

class GgufContentsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }

  // A folder of its own, with `from` replaced by `to` in one of its files.
  std::string Changed(const std::string& name, const std::string& file, const std::string& from,
                      const std::string& to) const {
    const std::string target = Path(name);
    if (!fs::exists(target)) fs::copy(Tiny(name), target, fs::copy_options::recursive);
    std::ifstream in(target + "/" + file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << file << " has no " << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    std::ofstream(target + "/" + file, std::ios::binary) << text;
    return target;
  }

  Status Convert(const std::string& model, const std::string& name) const {
    PERGOLA_ASSIGN_OR_RETURN(const auto quantiser, Quantiser::Open(model));
    return quantiser->Write({}, Path(name));
  }

  TempFolder folder_;
};

// llama.cpp's converter wrote model.gguf of the same safetensors: tensors to the bit, and every
// key-value but what it takes from model cards.
TEST_F(GgufContentsTest, GivesWhatTheConverterOfLlamaCppGives) {
  for (const std::string name : {"bert", "nomic-bert", "qwen2"}) {
    SCOPED_TRACE(name);
    const Status status = Convert(Tiny(name), name + ".gguf");
    ASSERT_TRUE(status.ok()) << status.ToString();
    const auto theirs = *formats::OpenTensorSource(Tiny(name) + "/model.gguf");
    const auto ours = *formats::OpenTensorSource(Path(name + ".gguf"));
    ASSERT_EQ(ours->tensors().size(), theirs->tensors().size());
    for (const formats::TensorInfo& tensor : theirs->tensors()) {
      const Result<TensorView> view = ours->Get(tensor.name, tensor.view.shape);
      ASSERT_TRUE(view.ok()) << view.status().ToString();
      ASSERT_EQ(view->dtype, tensor.view.dtype) << tensor.name;
      EXPECT_TRUE(std::equal(view->data, view->data + view->bytes(), tensor.view.data))
          << tensor.name;
    }
    const auto file = *ReadGgufContents(Tiny(name) + "/model.gguf");
    const auto converted = *ReadGgufContents(Path(name + ".gguf"));
    std::map<std::string_view, formats::GgufKeyValue> found;
    for (const formats::GgufKeyValue& each : converted.key_values) found[each.key] = each;
    const std::set<std::string_view> cards = {"general.name", "general.size_label"};
    const std::set<std::string> defaults = {name + ".attention.key_length",
                                            name + ".attention.value_length"};
    for (const auto& [key, type, payload] : file.key_values) {
      if (cards.contains(key)) continue;
      if (!found.contains(key)) {
        EXPECT_TRUE(defaults.contains(std::string(key))) << key;
        continue;
      }
      EXPECT_EQ(found[key].type, type) << key;
      EXPECT_EQ(found[key].payload, payload) << key;
    }
  }
}

// Every kind of architecture and tokenizer: the vectors of the file are those of the folder.
TEST_F(GgufContentsTest, VectorsAreTheFolders) {
  Changed("gemma3-embed", "config.json", "\"query_pre_attn_scalar\": 20",
          "\"query_pre_attn_scalar\": 24");
  // Every split of a piece is a merge, as in the tokenizers of published models.
  const std::string gemma = Changed(
      "gemma3-embed", "tokenizer.json", R"(["\n\n","\n"],["▁▁","▁▁"],["▁▁","▁"],)",
      R"(["\n\n","\n"],["\n","\n\n"],["▁▁▁","▁"],["▁▁","▁▁"],["▁","▁▁▁"],["▁▁","▁"],["▁","▁▁"],)");
  const std::vector<std::string> texts = {"A fox crossed the frozen river.", "12345 und Straße",
                                          "def f(x):\n    return x\n", "中文 русский"};
  for (const std::string& model :
       {Tiny("bert"), Tiny("bert-f16"), Tiny("distilbert"), Tiny("roberta"), Tiny("xlm-roberta"),
        Tiny("camembert"), Tiny("jina-bert"), Tiny("nomic-bert"), Tiny("modernbert"), Tiny("qwen2"),
        Tiny("qwen3-embed"), Tiny("qwen3-embed-bf16"), Tiny("qwen3-embed-sharded"),
        Tiny("qwen3-causal"), Tiny("llama"), Tiny("eurobert"), gemma}) {
    SCOPED_TRACE(model);
    const Status status = Convert(model, "model.gguf");
    ASSERT_TRUE(status.ok()) << status.ToString();
    const auto original = *Model::Load(model, {});
    const auto written = Model::Load(Path("model.gguf"), {});
    ASSERT_TRUE(written.ok()) << written.status().ToString();
    const std::vector<float> expected = Embed(*original, texts);
    EXPECT_EQ(expected, Embed(**written, texts));
    EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), [](float x) { return x != 0; }));
    EXPECT_EQ(original->pipeline().normalise, (*written)->pipeline().normalise);
    EXPECT_EQ(original->pipeline().prompts, (*written)->pipeline().prompts);
    EXPECT_EQ(original->pipeline().max_tokens, (*written)->pipeline().max_tokens);
  }
}

TEST_F(GgufContentsTest, SaysWhatGgufCannotSay) {
  const auto expect = [](const Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << status.ToString();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString();
  };
  expect(Convert(Tiny("deberta"), "a.gguf"), "'deberta-v2'");
  expect(Convert(Tiny("bert-classifier"), "a.gguf"), "'classifier.");
  expect(Convert(Tiny("bge-m3"), "a.gguf"), "only models of embeddings");
  expect(Convert(Tiny("gemma3-embed"), "a.gguf"), "attention_scale");
  expect(Convert(Tiny("mistral"), "a.gguf"), "sliding");
  expect(Convert(Tiny("llama-spm-rope3"), "a.gguf"), "Llama 3");
  expect(Convert(Changed("bert", "config.json", "\"gelu\"", "\"relu\""), "a.gguf"), "activation");
  // Characters that the kinds of GGUF vocabularies always take apart stay together here.
  const std::string other = Changed("distilbert", "tokenizer.json", "\"handle_chinese_chars\":true",
                                    "\"handle_chinese_chars\":false");
  expect(Convert(other, "a.gguf"), "would get other ids");
  EXPECT_FALSE(fs::exists(Path("a.gguf")));
}

TEST_F(GgufContentsTest, RefusesTensorsOfOtherShapesThanTheConfiguration) {
  const auto expect = [&](const std::string& folder, const std::string& part) {
    const Status status = Convert(folder, "a.gguf");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString();
  };
  expect(Changed("llama", "config.json", "\"head_dim\": 8", "\"head_dim\": 1024"),
         "which are no heads of 1024");
  Changed("roberta", "config.json", "\"max_position_embeddings\": 258",
          "\"max_position_embeddings\": 2000");
  expect(Changed("roberta", "config.json", "\"pad_token_id\": 1", "\"pad_token_id\": 899"),
         "has too few rows");
}

}  // namespace
}  // namespace pergola::engine
