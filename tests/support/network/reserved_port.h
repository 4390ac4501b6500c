// A port of 127.0.0.1 for a server that a test starts later, or again.
#ifndef TRIBUTARY_TESTS_SUPPORT_NETWORK_RESERVED_PORT_H_
#define TRIBUTARY_TESTS_SUPPORT_NETWORK_RESERVED_PORT_H_

#include <string>

namespace tributary {

// Reserves a port while it exists: the kernel does not assign the port to
// another socket unless that socket requests it. A listener that sets
// SO_REUSEADDR, as those of tributary do, can share it. Aborts the test program
// if there is no port.
class ReservedPort {
 public:
  ReservedPort();
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  int port() const { return port_; }
  // Returns "127.0.0.1:port".
  std::string address() const;

 private:
  const int socket_;
  int port_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_NETWORK_RESERVED_PORT_H_
