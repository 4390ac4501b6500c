// Bytes to and from an HTTP server on this machine.
#ifndef TRIBUTARY_TESTS_COMMON_HTTP_RAW_CONNECTION_H_
#define TRIBUTARY_TESTS_COMMON_HTTP_RAW_CONNECTION_H_

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace tributary {

// A connection to a server on this machine.
class RawConnection {
 public:
  explicit RawConnection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address),
                         sizeof(address)) == 0;
  }
  ~RawConnection() { close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool connected() const { return connected_; }
  void Send(const std::string& bytes) {
    // The server may have closed the connection.
    (void)!send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Returns what the server sends until it closes the connection.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    while (true) {
      const ssize_t count = read(socket_, buffer, sizeof(buffer));
      if (count <= 0) return all;
      all.append(buffer, static_cast<size_t>(count));
    }
  }

  // Tells the server that no more bytes follow.
  void EndSending() { shutdown(socket_, SHUT_WR); }
  // Returns true if the server has closed the connection, or does so within
  // `timeout`. Discards what it has sent.
  bool Ended(absl::Duration timeout) {
    pollfd waiting = {socket_, POLLIN, 0};
    char buffer[4096];
    while (poll(&waiting, 1,
                static_cast<int>(absl::ToInt64Milliseconds(timeout))) > 0) {
      if (read(socket_, buffer, sizeof(buffer)) <= 0) return true;
    }
    return false;
  }

 private:
  const int socket_;
  bool connected_ = false;
};

inline std::string Ask(int port, const std::string& request) {
  RawConnection connection(port);
  connection.Send(request);
  return connection.ReadAll();
}

inline std::string Get(int port, const std::string& target) {
  return Ask(port, absl::StrCat("GET ", target,
                                " HTTP/1.1\r\nHost: x\r\nConnection: close"
                                "\r\n\r\n"));
}

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_HTTP_RAW_CONNECTION_H_
