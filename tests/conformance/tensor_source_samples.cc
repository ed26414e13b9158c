#include "tensor_source_samples.h"

#include <fstream>

#include "core/check.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/memory_source.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "formats/slice.h"

namespace pergola::formats {
namespace {

using Opened = Result<std::unique_ptr<TensorSource>>;

SampleTensor Make(std::string name, DType dtype, const Shape& shape) {
  SampleTensor tensor{std::move(name), dtype, shape, {}};
  tensor.bytes.resize(static_cast<size_t>(tensor.view().bytes()));
  for (size_t i = 0; i < tensor.bytes.size(); ++i) {
    tensor.bytes[i] = static_cast<std::byte>(i * 7 + tensor.name.size());
  }
  return tensor;
}

void WriteText(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// The sample's tensors [begin, end).
std::string Safetensors(size_t begin, size_t end, bool unsupported) {
  SafetensorsWriter writer;
  writer.SetMetadata("general.name", kSampleName);
  for (size_t i = begin; i < end; ++i) {
    PERGOLA_CHECK(writer.Add(SampleTensors()[i].name, SampleTensors()[i].view()).ok());
  }
  std::string bytes = writer.Bytes();
  if (const size_t place = bytes.find("I32"); unsupported && place != std::string::npos) {
    bytes.replace(place, 3, "U32");
  }
  return bytes;
}

std::string Gguf(size_t begin, size_t end, bool unsupported, int shard, int num_shards) {
  GgufWriter writer;
  writer.SetString("general.name", kSampleName);
  if (num_shards > 1) {
    writer.SetRaw("split.no", GgufValueType::kUint16, std::string{static_cast<char>(shard), 0});
    writer.SetRaw("split.count", GgufValueType::kUint16,
                  std::string{static_cast<char>(num_shards), 0});
    writer.SetInt32("split.tensors.count", static_cast<int32_t>(SampleTensors().size()));
  }
  for (size_t i = begin; i < end; ++i) {
    PERGOLA_CHECK(writer.Add(SampleTensors()[i].name, SampleTensors()[i].view()).ok());
  }
  std::string bytes = writer.Bytes();
  if (const size_t place = bytes.find("ids"); unsupported && place != std::string::npos) {
    // Name, u32 rank 1, u64 dimension, then the type.
    bytes[place + 3 + 4 + 8] = 39;
  }
  return bytes;
}

Opened OpenMemory(const std::string&, bool unsupported) {
  auto source = std::make_unique<MemorySource>();
  PERGOLA_RETURN_IF_ERROR(source->Set("general.name", kSampleName));
  for (const SampleTensor& tensor : SampleTensors()) {
    if (unsupported && tensor.name == "ids") {
      PERGOLA_RETURN_IF_ERROR(source->AddUnsupported({"ids", "U32", tensor.shape, 0, 8, 0}));
    } else {
      PERGOLA_RETURN_IF_ERROR(source->Add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes));
    }
  }
  return std::unique_ptr<TensorSource>(std::move(source));
}

Opened OpenSafetensorsFile(const std::string& folder, bool unsupported) {
  WriteText(folder + "/any.name", Safetensors(0, SampleTensors().size(), unsupported));
  return OpenTensorSource(folder + "/any.name");
}

Opened OpenSafetensorsFolder(const std::string& folder, bool unsupported) {
  WriteText(folder + "/model.safetensors", Safetensors(0, SampleTensors().size(), unsupported));
  return OpenTensorSource(folder);
}

Opened OpenShardedSafetensors(const std::string& folder, bool unsupported) {
  const size_t count = SampleTensors().size();
  const size_t middle = count / 2;
  WriteText(folder + "/model-1.safetensors", Safetensors(0, middle, unsupported));
  WriteText(folder + "/model-2.safetensors", Safetensors(middle, count, unsupported));
  std::string index = "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {";
  for (size_t i = 0; i < count; ++i) {
    index += (i == 0 ? "\"" : ", \"") + SampleTensors()[i].name + "\": \"model-" +
             (i < middle ? "1" : "2") + ".safetensors\"";
  }
  WriteText(folder + "/model.safetensors.index.json", index + "}}");
  return OpenTensorSource(folder);
}

Opened OpenGgufFile(const std::string& folder, bool unsupported) {
  WriteText(folder + "/any.name", Gguf(0, SampleTensors().size(), unsupported, 0, 1));
  return OpenTensorSource(folder + "/any.name");
}

Opened OpenSplitGguf(const std::string& folder, bool unsupported) {
  const size_t count = SampleTensors().size();
  WriteText(folder + "/m-00001-of-00003.gguf", Gguf(0, 2, unsupported, 0, 3));
  WriteText(folder + "/m-00002-of-00003.gguf", Gguf(2, 3, unsupported, 1, 3));
  WriteText(folder + "/m-00003-of-00003.gguf", Gguf(3, count, unsupported, 2, 3));
  return OpenTensorSource(folder + "/m-00001-of-00003.gguf");
}

Opened OpenSliceFolder(const std::string& folder, bool unsupported) {
  MemorySource source;
  for (const SampleTensor& tensor : SampleTensors()) {
    PERGOLA_RETURN_IF_ERROR(source.Add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes));
  }
  PERGOLA_RETURN_IF_ERROR(source.Set("general.name", kSampleName));
  SliceFacts facts{.part = "ffn", .model = "sample", .identity = std::string(64, 'a')};
  std::vector<SliceFile> files = {{.name = "norms.bin"}, {.name = "ffn.gguf"}};
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    files[i < 3 ? 0 : 1].tensors.push_back(&source.tensors()[i]);
  }
  const std::string path = folder + "/slice";
  PERGOLA_RETURN_IF_ERROR(WriteSlice(path, facts, files, source.metadata()));
  if (unsupported) {
    std::ifstream file(path + "/index.json", std::ios::binary);
    std::string index{std::istreambuf_iterator<char>(file), {}};
    index.replace(index.find("I32"), 3, "U32");
    WriteText(path + "/index.json", index);
  }
  return OpenTensorSource(path);
}

}  // namespace

const std::vector<SampleTensor>& SampleTensors() {
  static const std::vector<SampleTensor> tensors = {
      Make("model.layers.0.weight", DType::kF32, {2, 3}),
      Make("a name of two words", DType::kF16, {5}),
      Make("größe", DType::kBF16, {2, 1, 3}),
      Make("scalar", DType::kF32, {}),
      Make("deep", DType::kI8, {2, 3, 2, 5}),
      Make("ids", DType::kI32, {2}),
  };
  return tensors;
}

const std::vector<SampleCase>& SampleCases() {
  static const std::vector<SampleCase> cases = {
      {"Memory", OpenMemory},
      {"Safetensors", OpenSafetensorsFile},
      {"SafetensorsFolder", OpenSafetensorsFolder},
      {"ShardedSafetensors", OpenShardedSafetensors},
      {"Gguf", OpenGgufFile},
      {"SplitGguf", OpenSplitGguf},
      {"Slice", OpenSliceFolder},
  };
  return cases;
}

}  // namespace pergola::formats
