// The one place where our Status becomes gRPC's and back. The codes are the same numbers.
#pragma once

#include "pergola/status.h"

namespace grpc {
class Status;
}  // namespace grpc

namespace pergola::rpc {

// Messages are cut at 1,000 bytes between characters: they travel in headers, which are bounded.
grpc::Status ToGrpcStatus(const Status& status);

// A code outside the enum becomes UNKNOWN; invalid UTF-8 is replaced: a peer may be anybody.
Status FromGrpcStatus(const grpc::Status& status);

}  // namespace pergola::rpc
