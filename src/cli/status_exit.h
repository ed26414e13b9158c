// How a failed Status ends the program: one message on stderr, one exit code.
#pragma once

#include "cli/command_line.h"
#include "pergola/status.h"

namespace pergola::cli {

// kExitUnavailable for what cannot be reached or is not there, kExitFailure for the rest.
ExitCode ExitCodeFor(StatusCode code);

// Prints "pergola: <message>" to stderr and returns ExitCodeFor the code.
int Fail(const Status& status);

}  // namespace pergola::cli
