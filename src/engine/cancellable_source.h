// A TensorSource whose tensors are to be had until somebody says that they are not wanted any more:
// what loads a model from it ends soon then.
//
//   source = std::make_unique<CancellableSource>(std::move(source), [&] { return stopping.load();
//   });
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "formats/tensor_source.h"

namespace pergola::engine {

// Thread-safe if `cancelled` is.
class CancellableSource : public formats::TensorSource {
 public:
  CancellableSource(std::unique_ptr<formats::TensorSource> base, std::function<bool()> cancelled)
      : base_(std::move(base)), cancelled_(std::move(cancelled)) {}

  std::string_view format() const override { return base_->format(); }
  std::span<const std::string> files() const override { return base_->files(); }
  std::span<const formats::TensorInfo> tensors() const override { return base_->tensors(); }
  std::span<const formats::UnsupportedTensor> unsupported() const override {
    return base_->unsupported();
  }
  const std::map<std::string, formats::MetadataValue, std::less<>>& metadata() const override {
    return base_->metadata();
  }
  const formats::TensorInfo* Find(std::string_view name) const override {
    return base_->Find(name);
  }
  // CANCELLED, beside the errors of any source.
  Result<TensorView> Get(std::string_view name) const override {
    if (cancelled_()) return CancelledError("loading was ended");
    return base_->Get(name);
  }
  using formats::TensorSource::Get;

 private:
  const std::unique_ptr<formats::TensorSource> base_;
  const std::function<bool()> cancelled_;
};

}  // namespace pergola::engine
