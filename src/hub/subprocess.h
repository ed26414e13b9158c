// Runs one program to its end, without a shell, with its output in a file.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "pergola/status.h"

namespace pergola::hub {

struct SubprocessOptions {
  std::vector<std::string> arguments;    // [0] is the program, looked for on PATH
  std::vector<std::string> environment;  // "NAME=value", on top of this process's own
  std::filesystem::path log;             // receives stdout and stderr; replaced
  // Called every 100 ms while it runs; false kills it.
  std::function<bool()> keep_going;
};

// OK when it exits with 0. NOT_FOUND: there is no such program; CANCELLED: keep_going said no;
// UNKNOWN: it failed, the message holds the last lines of its output.
Status RunSubprocess(const SubprocessOptions& options);

}  // namespace pergola::hub
