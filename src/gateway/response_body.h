// How the body of an answer goes over the wire: whether there is one, whether it is worth
// compressing, and chunks (RFC 9112). Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "gateway/http_types.h"

namespace pergola::gateway {

// 204 and 304 have none, whatever the handler gave.
bool HasNoBody(int status);

// Whether gzip may make it smaller: long enough, text, and not encoded yet.
bool IsCompressible(const HttpResponse& response);

// Makes a chunk of `*piece`, unless it is empty: its first line is appended to `*head`, which goes
// before it. `last`: the end of all chunks too.
void FrameChunk(bool last, std::string* head, std::string* piece);

}  // namespace pergola::gateway
