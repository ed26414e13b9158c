#include "hub/subprocess.h"

#include <fcntl.h>
#include <simdjson.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

namespace pergola::hub {
namespace {

constexpr std::chrono::milliseconds kPoll{10};
constexpr int kPollsPerTick = 10;

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const std::vector<std::string>& additions) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view have(*entry);
    const std::string_view name = have.substr(0, have.find('='));
    const bool replaced = std::any_of(additions.begin(), additions.end(), [&](const auto& added) {
      return std::string_view(added).substr(0, added.find('=')) == name;
    });
    if (!replaced) all.emplace_back(have);
  }
  all.insert(all.end(), additions.begin(), additions.end());
  return all;
}

// The last 600 bytes of the log, made safe for a message.
std::string LastLines(const std::filesystem::path& log) {
  std::ifstream file(log, std::ios::binary);
  std::ostringstream buffer;
  buffer << file.rdbuf();
  std::string text = buffer.str();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.size() > 600) text = "..." + text.substr(text.size() - 600);
  const bool utf8 = simdjson::validate_utf8(text);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && c != '\n') || byte == 0x7f || (byte >= 0x80 && !utf8)) c = '?';
  }
  return text;
}

// Starts the program; 0 or an errno.
int Spawn(const SubprocessOptions& options, pid_t* pid) {
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = Environment(options.environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, options.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  // A server blocks stop signals and ignores SIGPIPE; its child must not.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int code = posix_spawnp(pid, arguments[0].c_str(), &actions, &attributes,
                                Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return code;
}

}  // namespace

Status RunSubprocess(const SubprocessOptions& options) {
  const std::string& program = options.arguments[0];
  pid_t pid = 0;
  if (const int code = Spawn(options, &pid); code != 0) {
    return NotFoundError("cannot run '" + program + "': " + std::strerror(code));
  }
  int state = 0;
  for (int poll = 1;; ++poll) {
    const pid_t ended = waitpid(pid, &state, WNOHANG);
    if (ended == pid) break;
    if (ended < 0 && errno != EINTR) {
      return InternalError("cannot wait for '" + program + "': " + std::strerror(errno));
    }
    if (poll % kPollsPerTick == 0 && options.keep_going && !options.keep_going()) {
      kill(pid, SIGKILL);
      while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
      }
      return CancelledError("'" + program + "' was stopped");
    }
    std::this_thread::sleep_for(kPoll);
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return OkStatus();
  const std::string how = WIFEXITED(state)
                              ? "ended with exit code " + std::to_string(WEXITSTATUS(state))
                              : "was ended by signal " + std::to_string(WTERMSIG(state));
  return Status(StatusCode::kUnknown, "'" + program + "' " + how + ": " + LastLines(options.log));
}

}  // namespace pergola::hub
