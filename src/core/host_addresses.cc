#include "core/host_addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

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

Result<std::vector<std::string>> ResolveHost(const std::string& name) {
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

}  // namespace pergola
