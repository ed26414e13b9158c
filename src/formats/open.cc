// The one list of file formats.
#include <filesystem>

#include "core/mapped_file.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/slice.h"
#include "formats/tensor_source.h"

namespace pergola::formats {

Result<std::unique_ptr<TensorSource>> OpenTensorSource(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return IsSlice(path) ? OpenSlice(path, /*verify=*/false) : OpenSafetensors(path);
  }
  PERGOLA_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  // The magic cannot begin a safetensors file: as a header length it is above the limit.
  if (LooksLikeGguf(file.bytes()) || path.ends_with(".gguf")) return OpenGguf(path);
  return OpenSafetensors(path);
}

}  // namespace pergola::formats
