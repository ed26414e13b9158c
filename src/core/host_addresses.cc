#include "core/host_addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace pergola {
namespace {

std::string TextOf(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const bool v6 = address.sa_family == AF_INET6;
  const void* bytes =
      v6 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr)
         : &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  if (inet_ntop(address.sa_family, bytes, text.data(), text.size()) == nullptr) return {};
  return v6 ? "[" + std::string(text.data()) + "]" : std::string(text.data());
}

}  // namespace

Result<std::vector<std::string>> LookUpHost(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return UnavailableError("cannot resolve '" + name + "': " + gai_strerror(error));
  }
  std::vector<std::string> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    std::string text = TextOf(*each->ai_addr);
    if (!text.empty()) addresses.push_back(std::move(text));
  }
  freeaddrinfo(found);
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

Result<std::vector<std::string>> ResolveHost(const std::string& name, std::stop_token stop,
                                             HostLookup lookup) {
  struct Question {
    std::mutex mutex;  // guards what follows
    std::condition_variable_any changed;
    std::optional<Result<std::vector<std::string>>> answer;
  };
  const auto question = std::make_shared<Question>();  // second owner: the thread that asks
  std::thread([question, name, lookup = std::move(lookup)] {
    auto answer = lookup(name);
    const std::lock_guard<std::mutex> lock(question->mutex);
    question->answer = std::move(answer);
    question->changed.notify_all();
  }).detach();
  std::unique_lock<std::mutex> lock(question->mutex);
  const bool answered =
      question->changed.wait(lock, stop, [&question] { return question->answer.has_value(); });
  if (!answered) return CancelledError("'" + name + "' was not resolved before the end");
  return std::move(*question->answer);
}

}  // namespace pergola
