// gRPC writes to stderr by itself; a library does not.
#pragma once

namespace pergola::rpc {

// Silences it for the process, unless GRPC_VERBOSITY asks for its messages. Idempotent,
// thread-safe.
void QuietGrpcLog();

}  // namespace pergola::rpc
