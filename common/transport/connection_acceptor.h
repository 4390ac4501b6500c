// Accepts connections for a gRPC server. gRPC's own listener has no limit on
// connections, and ends the process when descriptors run out (CVE-2023-4785);
// this one counts before it hands a socket over, and outlives any number of
// them.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CONNECTION_ACCEPTOR_H_
#define TRIBUTARY_COMMON_TRANSPORT_CONNECTION_ACCEPTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/os/log.h"
#include "common/transport/connection_table.h"

namespace tributary {

// Listen, Start and Stop belong to one thread; the handlers are called on a
// thread of the acceptor's own.
class ConnectionAcceptor {
 public:
  // Gets a connected socket, non-blocking and closed on exec, which is its to
  // close. Must not block.
  using Handler = std::function<void(int socket)>;

  // `log` must outlive this object.
  ConnectionAcceptor(const Limits& limits, Logger* log);
  // Stops.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // Binds "host:port", every address that the host has; port 0: any free one.
  // The port. Unavailable if that does not work; InvalidArgument for what is no
  // address.
  absl::StatusOr<int> ListenTcp(const std::string& address, Handler handler);

  // Binds the abstract Unix socket "unix-abstract:NAME". Only processes of this
  // process's user get in, and of root, if `own_user_only`.
  absl::Status ListenUnix(const std::string& address, bool own_user_only,
                          Handler handler);

  // Begins to accept. No Listen after it.
  void Start();
  // Closes the listeners, not the connections. Harmless when repeated.
  void Stop();

  // How many connections it allows at a time: the limit, or what descriptors
  // this process may have beyond those that it needs for itself.
  int most_connections() const { return most_connections_; }

 private:
  struct Door {
    int listener = -1;
    bool own_user_only = false;
    Handler handler;
  };

  void Run();
  // Takes what waits there.
  void AcceptAll(const Door& door);
  // False: the socket was refused, and closed.
  bool Admit(const Door& door, int socket, const std::string& peer);
  // Frees a descriptor to accept, and turn away, one connection with.
  void TurnOneAway(const Door& door);
  void Warn(const std::string& text);

  const Limits limits_;
  Logger* const log_;
  const int most_connections_;
  int wake_ = -1;   // Becomes readable to stop the thread.
  int spare_ = -1;  // Held back for when there are no more.
  std::vector<Door> doors_;
  std::thread thread_;

  // Of the thread.
  ConnectionTable table_;
  absl::Time warned_ = absl::InfinitePast();
  int64_t refused_ = 0;  // Since the last warning.
};

// Raises this process's limit on open descriptors as far as it may, so that it
// can hold `connections` and what it needs for itself.
void RaiseDescriptorLimit(int connections);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CONNECTION_ACCEPTOR_H_
