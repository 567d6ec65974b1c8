// TCP between processes of one run, POSIX only: a listener that others reach under any address of its host,
// and connections that carry short frames without ever blocking. Both ends are builds of one program, so
// numbers travel as they are.
#pragma once

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::runtime {

/// Owns a file descriptor.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
  explicit operator bool() const { return number >= 0; }
  int get() const { return number; }

private:
  int number;
};

/// Numeric addresses of this host's interfaces that are up: those that other hosts may reach first, then
/// loopback. Addresses that are only valid with a scope are left out.
inline std::vector<std::string> addressesOfHost() {
  std::vector<std::string> addresses, loopback;
  ifaddrs *list = nullptr;
  if (::getifaddrs(&list) != 0)
    return {"127.0.0.1"};
  for (const ifaddrs *entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0)
      continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (entry->ifa_addr->sa_family == AF_INET) {
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(entry->ifa_addr)->sin_addr, text,
                  sizeof text);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const in6_addr &address = reinterpret_cast<const sockaddr_in6 *>(entry->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address))
        continue;
      ::inet_ntop(AF_INET6, &address, text, sizeof text);
    } else {
      continue;
    }
    ((entry->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : addresses).emplace_back(text);
  }
  ::freeifaddrs(list);
  addresses.insert(addresses.end(), loopback.begin(), loopback.end());
  return addresses;
}

/// Listens on a free port of all interfaces.
inline Descriptor listenAnywhere(uint16_t &port) {
  for (const int family : {AF_INET6, AF_INET}) {
    Descriptor listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener)
      continue;
    const int off = 0;
    sockaddr_storage address{};
    socklen_t size = sizeof(sockaddr_in);
    address.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) { // and IPv4 as well
      ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      size = sizeof(sockaddr_in6);
    }
    if (::bind(listener.get(), reinterpret_cast<sockaddr *>(&address), size) != 0 ||
        ::listen(listener.get(), SOMAXCONN) != 0 ||
        ::getsockname(listener.get(), reinterpret_cast<sockaddr *>(&address), &size) != 0)
      continue;
    // The port lies at the same place in both families.
    port = ntohs(reinterpret_cast<sockaddr_in *>(&address)->sin_port);
    return listener;
  }
  throw std::runtime_error(std::string("cannot listen for other processes: ") + std::strerror(errno));
}

/// A connection to a numeric address, or none.
inline Descriptor connectTo(const std::string &address, uint16_t port, std::chrono::milliseconds limit) {
  sockaddr_storage target{};
  socklen_t size = 0;
  if (auto *four = reinterpret_cast<sockaddr_in *>(&target);
      ::inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    size = sizeof(sockaddr_in);
  } else if (auto *six = reinterpret_cast<sockaddr_in6 *>(&target);
             ::inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    size = sizeof(sockaddr_in6);
  } else {
    return Descriptor();
  }
  Descriptor socket(::socket(target.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    return socket;
  if (::connect(socket.get(), reinterpret_cast<sockaddr *>(&target), size) == 0)
    return socket;
  pollfd entry{socket.get(), POLLOUT, 0};
  int error = 0;
  socklen_t length = sizeof error;
  if (errno != EINPROGRESS || ::poll(&entry, 1, static_cast<int>(limit.count())) != 1 ||
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0)
    return Descriptor();
  return socket;
}

/// Sends and receives frames: a kind and some bytes. Used by one thread.
class Connection {
public:
  struct Frame {
    uint32_t kind;
    std::string bytes;
  };

  Connection() = default;
  explicit Connection(Descriptor descriptor) : socket(std::move(descriptor)) {
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  }

  bool isOpen() const { return static_cast<bool>(socket); }
  void close() {
    socket = Descriptor();
    output.clear();
  }
  int descriptor() const { return socket.get(); }
  /// Bytes that wait for the other end to read.
  size_t backlog() const { return output.size(); }

  void put(uint32_t kind, const void *data, size_t size) {
    const uint32_t head[2] = {kind, static_cast<uint32_t>(size)};
    output.append(reinterpret_cast<const char *>(head), sizeof head);
    output.append(static_cast<const char *>(data), size);
    flush();
  }
  /// Sends what can be sent now. A broken connection shows when it is read.
  void flush() {
    while (isOpen() && !output.empty()) {
      const ssize_t sent = ::send(socket.get(), output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) {
        if (sent < 0 && errno == EINTR)
          continue;
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
          output.clear();
        return;
      }
      output.erase(0, static_cast<size_t>(sent));
    }
  }

  /// Reads what has arrived. False: the other end is gone, and all it sent is here.
  bool fill() {
    char buffer[4096];
    while (true) {
      const ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got > 0)
        input.append(buffer, static_cast<size_t>(got));
      else if (got == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
        return false;
      else if (errno != EINTR)
        return true;
    }
  }
  /// The next whole frame, if there is one.
  bool take(Frame &frame) {
    uint32_t head[2];
    if (input.size() < sizeof head)
      return false;
    std::memcpy(head, input.data(), sizeof head);
    if (input.size() - sizeof head < head[1])
      return false;
    frame.kind = head[0];
    frame.bytes = input.substr(sizeof head, head[1]);
    input.erase(0, sizeof head + head[1]);
    return true;
  }
  /// Blocks for the next frame until `end`.
  bool await(Frame &frame, std::chrono::steady_clock::time_point end) {
    while (!take(frame)) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd entry{socket.get(), POLLIN, 0};
      if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) != 1)
        return false;
      if (!fill())
        return take(frame);
    }
    return true;
  }

private:
  Descriptor socket;
  std::string input, output;
};

} // namespace sluice::runtime
