// One client connection: reads requests, passes them to the handler one after the other, writes
// answers.
//
// A coroutine on one network thread runs it from handshake to close; callbacks of the stream, of
// the handler and of worker threads only note what happened and wake it. While a request is with
// the handler (perhaps on this very thread, while another runs the coroutine: event_loop.h) one
// read stays under way, so that the end of the stream (the client went away) is seen and pipelined
// bytes wait in the buffer. Started by connection_set.cc; not for others.
#pragma once

#include <memory>
#include <string>

#include "gateway/connection_set.h"
#include "gateway/http_stream.h"

namespace pergola::gateway {

// Runs on the set's thread until either side closes. `peer`: for the log.
void StartConnection(std::shared_ptr<ConnectionSet> set, std::unique_ptr<HttpStream> stream,
                     std::string peer);

}  // namespace pergola::gateway
