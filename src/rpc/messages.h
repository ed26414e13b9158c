// Requests, outputs and facts of models as messages of proto/pergola/v1/embedding.proto, and back.
//
// Pure functions. What comes from a peer is checked: nothing that decodes without an error breaks a
// promise of service/inference_service.h.
#pragma once

#include "pergola/status.h"
#include "service/inference_service.h"

namespace pergola::v1 {
class InferRequest;
class InferResponse;
class ModelInfo;
}  // namespace pergola::v1

namespace pergola::rpc {

// All but deadline and cancel, which travel as gRPC's own.
void EncodeRequest(const service::InferenceRequest& request, v1::InferRequest* message);
// INVALID_ARGUMENT: an unknown enum value, or a tenant over 256 bytes. What depends on the model is
// the service's to check.
Result<service::InferenceRequest> DecodeRequest(const v1::InferRequest& message);

// Copies each row once.
void EncodeOutput(const service::InferenceOutput& output, v1::InferResponse* message);
// `asked`: what `message` answers. DATA_LOSS when it answers something else: a wrong number of
// sequences or rows, a kind missing, bytes that do not fit the shape.
Result<service::InferenceOutput> DecodeOutput(const v1::InferRequest& asked,
                                              const v1::InferResponse& message);

void EncodeModel(const service::ModelInfo& info, v1::ModelInfo* message);
// DATA_LOSS: a negative limit or width.
Result<service::ModelInfo> DecodeModel(const v1::ModelInfo& message);

}  // namespace pergola::rpc
