// The embedding table and the projection on a server that is reached over HTTP: `predict --embed
// http://...`. The routes and their binary forms stand in docs/split.md.
//
//   PERGOLA_ASSIGN_OR_RETURN(auto embed, HttpEmbed::Connect("http://10.0.0.2:42690", expected,
//   "")); engine::Generator generator(model, {.embed = embed.get(), .head = embed.get()});
//
// Rows and residuals travel as f32, and the answer to a residual is all logits: the tokens are
// those of the frames, bit for bit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "grid/remote_part.h"
#include "hub/http_session.h"

namespace pergola::cli {

// Thread-confined.
class HttpEmbed : public engine::EmbedPort, public engine::HeadPort {
 public:
  // UNAVAILABLE; FAILED_PRECONDITION with both values when the server's model or arithmetic is not
  // the expected one. `ca_file`: authorities (PEM) of an https server; empty: the system's.
  static Result<std::unique_ptr<HttpEmbed>> Connect(const std::string& url,
                                                    const grid::ExpectedPart& expected,
                                                    const std::string& ca_file);

  // DATA_LOSS when an answer has another size or a value that is not finite.
  Status Embed(std::span<const int32_t> ids, F32Matrix rows) override;
  Result<engine::TopTokens> Top(ConstF32Matrix residual, int64_t count) override;
  Status Logits(ConstF32Matrix residual, std::span<float> logits) override;

 private:
  HttpEmbed(const std::string& url, const hub::HttpOptions& options) : session_(url, options) {}
  Status Compare(std::string_view stats, const grid::ExpectedPart& expected);

  hub::HttpSession session_;
  std::vector<float> logits_;
  std::string request_;
};

}  // namespace pergola::cli
