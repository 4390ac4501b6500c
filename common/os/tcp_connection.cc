#include "common/os/tcp_connection.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace tributary {
namespace {

// An end of a connection, as the kernel's interface describes it.
struct End {
  uint8_t family = AF_UNSPEC;
  uint16_t port = 0;         // In network byte order.
  uint32_t address[4] = {};  // Likewise.
};

bool ToEnd(const sockaddr_storage& from, End* end) {
  end->family = static_cast<uint8_t>(from.ss_family);
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    end->port = v4.sin_port;
    std::memcpy(end->address, &v4.sin_addr, sizeof(v4.sin_addr));
    return true;
  }
  if (from.ss_family != AF_INET6) return false;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
  end->port = v6.sin6_port;
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    // The peer's own socket may have the family AF_INET.
    end->family = AF_INET;
    std::memcpy(end->address, &v6.sin6_addr.s6_addr[12], 4);
  } else {
    std::memcpy(end->address, &v6.sin6_addr, sizeof(v6.sin6_addr));
  }
  return true;
}

}  // namespace

absl::optional<uid_t> UserOfTcpPeer(int socket) {
  sockaddr_storage own = {};
  sockaddr_storage other = {};
  socklen_t own_size = sizeof(own);
  socklen_t other_size = sizeof(other);
  End here;
  End there;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_size) !=
          0 ||
      !ToEnd(own, &here) || !ToEnd(other, &there)) {
    return absl::nullopt;
  }
  struct {
    nlmsghdr header;
    inet_diag_req_v2 body;
  } request = {};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = there.family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0u;
  request.body.id.idiag_sport = there.port;
  request.body.id.idiag_dport = here.port;
  std::memcpy(request.body.id.idiag_src, there.address, sizeof(there.address));
  std::memcpy(request.body.id.idiag_dst, here.address, sizeof(here.address));
  request.body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;

  const int kernel = ::socket(
      AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
  if (kernel < 0) return absl::nullopt;
  absl::optional<uid_t> user;
  struct {
    nlmsghdr header;
    inet_diag_msg body;
    char attributes[512];
  } reply;
  // The kernel answers during send().
  if (send(kernel, &request, sizeof(request), 0) ==
          static_cast<ssize_t>(sizeof(request)) &&
      recv(kernel, &reply, sizeof(reply), 0) >=
          static_cast<ssize_t>(sizeof(reply.header) + sizeof(reply.body)) &&
      reply.header.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
    user = reply.body.idiag_uid;
  }
  close(kernel);
  return user;
}

absl::optional<uint64_t> BytesReceived(int socket) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return absl::nullopt;
  }
  return info.tcpi_bytes_received;
}

}  // namespace tributary
