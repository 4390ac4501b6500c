#include "common/os/local_host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace tributary {

absl::StatusOr<std::string> LocalHostTowards(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is not HOST:PORT"));
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(),
                                &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(address, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> to(found, &freeaddrinfo);
  // Connecting a datagram socket selects a route without sending anything.
  const int socket_file =
      socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, to->ai_protocol);
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  char number[NI_MAXHOST] = "";
  const bool known =
      socket_file >= 0 &&
      connect(socket_file, to->ai_addr, to->ai_addrlen) == 0 &&
      getsockname(socket_file, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
      getnameinfo(reinterpret_cast<sockaddr*>(&own), size, number,
                  sizeof(number), nullptr, 0, NI_NUMERICHOST) == 0;
  const int reason = errno;
  if (socket_file >= 0) close(socket_file);
  if (known) return std::string(number);
  return absl::UnavailableError(
      absl::StrCat("no way to ", address, ": ", std::strerror(reason)));
}

bool IsLoopback(absl::string_view host) {
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6;
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

bool IsOfThisMachine(const std::string& host) {
  in_addr v4 = {};
  in6_addr v6 = {};
  const bool is_v4 = inet_pton(AF_INET, host.c_str(), &v4) == 1;
  if (!is_v4 && inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  if (IsLoopback(host)) return true;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, &freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr;
       entry = entry->ifa_next) {
    const sockaddr* const address = entry->ifa_addr;
    if (address == nullptr) continue;
    if (is_v4 && address->sa_family == AF_INET &&
        reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr ==
            v4.s_addr) {
      return true;
    }
    if (!is_v4 && address->sa_family == AF_INET6 &&
        IN6_ARE_ADDR_EQUAL(
            &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, &v6)) {
      return true;
    }
  }
  return false;
}

}  // namespace tributary
