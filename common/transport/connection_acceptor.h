// Accepts connections for a gRPC server and limits their number. gRPC's own
// listener has no limit, and ends the process when descriptors run out
// (CVE-2023-4785).
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
#include "common/os/logger.h"
#include "common/transport/connection_table.h"

namespace tributary {

// Accepts connections on a thread of its own, which calls the handlers. Not
// thread-safe: one thread calls ListenTcp, ListenUnix, Start and Stop.
class ConnectionAcceptor {
 public:
  // Called with each accepted socket, which is non-blocking and close-on-exec.
  // The handler takes ownership of the socket and must not block.
  using Handler = std::function<void(int socket)>;

  // `log` must outlive this object.
  ConnectionAcceptor(const Limits& limits, Logger* log);
  // Calls Stop, which closes the listeners.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // Binds every IP address of the host in `address`, "host:port"; port 0
  // selects a free port. Returns the port. Returns Unavailable if the host is
  // unknown, if none of its IP addresses can be bound, or if the port is in use
  // on any of them. Returns InvalidArgument if `address` is malformed.
  absl::StatusOr<int> ListenTcp(const std::string& address, Handler handler);

  // Binds the abstract Unix socket "unix-abstract:NAME". If `own_user_only` is
  // true, accepts only connections from processes of this process's user and of
  // root. Returns Unavailable if the name cannot be bound, and InvalidArgument
  // if `address` is malformed.
  absl::Status ListenUnix(const std::string& address, bool own_user_only,
                          Handler handler);

  // Starts to accept connections. Neither ListenTcp nor ListenUnix may be
  // called after it.
  void Start();
  // Closes the listeners but not the accepted connections. Idempotent.
  void Stop();

  // Ends all accepted connections without waiting for their peers. Call it
  // after Stop, from any thread.
  void ShutDownConnections() const { table_.ShutDownAll(); }

  // The maximum number of concurrent connections: Limits::connections, or, if
  // smaller, the number of descriptors that the process may open beyond those
  // it needs for other purposes.
  int most_connections() const { return most_connections_; }

 private:
  struct Door {
    int listener = -1;
    bool own_user_only = false;
    Handler handler;
  };

  void Run();
  // Accepts the connections that are queued at the listener of `door`, up to
  // kAcceptsPerTurn. If the process has no free descriptors, calls TurnOneAway
  // and returns.
  void AcceptAll(const Door& door);
  // Returns true if the connection `socket` from `peer` is within the limits on
  // connections and, if `door` requires it, comes from an allowed user.
  // Otherwise closes `socket` and returns false.
  bool Admit(const Door& door, int socket, const std::string& peer);
  // Refuses one connection when the process has no free descriptors: frees the
  // reserved descriptor, accepts and closes the connection, reserves a
  // descriptor again, and pauses briefly.
  void TurnOneAway(const Door& door);
  void Warn(const std::string& text);

  const Limits limits_;
  Logger* const log_;
  const int most_connections_;
  int wake_ = -1;   // A descriptor; when it is readable, the thread stops.
  int spare_ = -1;  // A reserved descriptor for TurnOneAway.
  std::vector<Door> doors_;
  std::thread thread_;

  // The members below are accessed only by `thread_`, and after its end by
  // ShutDownConnections.
  ConnectionTable table_;
  absl::Time warned_ = absl::InfinitePast();
  int64_t refused_ = 0;  // Number of refusals since the last warning.
};

// Raises this process's soft limit on open descriptors, within the hard limit,
// to `connections` plus the number of descriptors that the process needs for
// other purposes.
void RaiseDescriptorLimit(int connections);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CONNECTION_ACCEPTOR_H_
