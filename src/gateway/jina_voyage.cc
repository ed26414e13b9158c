// What Jina's and Voyage's clients add to the body of /v1/embeddings.
#include "gateway/dialect.h"

namespace pergola::gateway {

void ReadJinaFields(Fields& fields, EmbedCall* call) {
  constexpr std::string_view kTypes[] = {"float", "base64", "binary", "ubinary"};
  if (const auto choice =
          fields.OneOf("embedding_type", {kTypes[0], kTypes[1], kTypes[2], kTypes[3]})) {
    call->formats = {*NumberFormatByName(kTypes[*choice])};
    call->format_field = "embedding_type";
  }
  if (const auto task = fields.String("task")) call->role = *task;
  if (const auto normalised = fields.Bool("normalized")) call->normalise = *normalised;
  call->late_chunking = fields.Bool("late_chunking").value_or(false);
}

void ReadVoyageFields(Fields& fields, EmbedCall* call) {
  const bool is_voyage = fields.Has("input_type") || fields.Has("truncation") ||
                         fields.Has("output_dimension") || fields.Has("output_dtype");
  if (!is_voyage) return;
  call->envelope = Envelope::kVoyage;
  call->truncate = fields.Bool("truncation").value_or(true);
  call->role = fields.String("input_type");
  if (fields.Has("output_dimension")) {
    if (fields.Has("dimensions")) {
      fields.Fail("output_dimension", "output_dimension and dimensions exclude each other");
    }
    call->dimensions = fields.Integer("output_dimension");
    call->dimensions_field = "output_dimension";
  }
  constexpr std::string_view kTypes[] = {"float", "int8", "uint8", "binary", "ubinary"};
  const auto choice =
      fields.OneOf("output_dtype", {kTypes[0], kTypes[1], kTypes[2], kTypes[3], kTypes[4]});
  if (!choice) return;
  // Voyage's own client always asks for base64, which is then base64 of that type.
  const NumberFormat asked = call->formats[0];
  if (asked.type != service::NumberType::kFloat) {
    fields.Fail("output_dtype", "output_dtype goes with encoding_format 'float' or 'base64' only");
    return;
  }
  call->formats = {*NumberFormatByName(kTypes[*choice])};
  call->formats[0].base64 = asked.base64;
  call->format_field = "output_dtype";
}

}  // namespace pergola::gateway
