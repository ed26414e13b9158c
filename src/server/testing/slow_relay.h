// Passes TCP connections on to a port of 127.0.0.1 as a far one would be: what the client says
// first arrives late.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace pergola::server::testing {

class SlowRelay {
 public:
  SlowRelay(int port, std::chrono::milliseconds delay) : port_(port), delay_(delay) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in any = Loopback(0);
    bind(listener_, reinterpret_cast<const sockaddr*>(&any), sizeof any);
    listen(listener_, 16);
    accepting_ = std::thread([this] { Accept(); });
  }
  ~SlowRelay() {
    stopping_ = true;
    accepting_.join();
    for (std::thread& passing : passing_) passing.join();
    close(listener_);
  }
  SlowRelay(const SlowRelay&) = delete;
  SlowRelay& operator=(const SlowRelay&) = delete;

  std::string address() const {
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &size);
    return "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
  }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void Accept() {
    while (!stopping_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (poll(&waiting, 1, 10) < 1) continue;
      const int client = accept(listener_, nullptr, nullptr);
      passing_.emplace_back([this, client] { Pass(client); });
    }
  }

  void Pass(int client) const {
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Loopback(port_);
    const bool connected =
        connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    std::this_thread::sleep_for(delay_);
    std::array<pollfd, 2> ends = {pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    bool open = connected;
    while (open && !stopping_) {
      if (poll(ends.data(), ends.size(), 10) < 1) continue;
      for (size_t from = 0; from < ends.size() && open; ++from) {
        if (ends[from].revents == 0) continue;
        std::array<char, 16384> bytes;
        const ssize_t count = recv(ends[from].fd, bytes.data(), bytes.size(), 0);
        open = count > 0 && send(ends[1 - from].fd, bytes.data(), static_cast<size_t>(count),
                                 MSG_NOSIGNAL) == count;
      }
    }
    close(client);
    close(server);
  }

  const int port_;
  const std::chrono::milliseconds delay_;
  int listener_ = -1;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> passing_;  // of the accepting thread until it has ended
  std::thread accepting_;
};

}  // namespace pergola::server::testing
