// A TCP proxy on loopback between a server and its clients that injects network
// faults on request.
#ifndef TRIBUTARY_TESTS_SUPPORT_NETWORK_TCP_PROXY_H_
#define TRIBUTARY_TESTS_SUPPORT_NETWORK_TCP_PROXY_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tributary {

// Forwards all bytes on a thread of its own. Thread-safe.
class TcpProxy {
 public:
  enum Direction { kToServer = 0, kToClient = 1 };
  struct Statistics {
    int connections = 0;    // Connections so far, including replayed ones.
    int refused = 0;        // Refused connections, not in `connections`.
    int faults = 0;         // Cuts, resets and flips so far.
    int64_t bytes[2] = {};  // Bytes delivered, by direction.
  };

  // Listens on a free port of 127.0.0.1. The jitter depends only on `seed`.
  explicit TcpProxy(uint64_t seed = 1);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  // Returns the address for clients, as host:port.
  const std::string& address() const { return address_; }
  // Sets the target of new connections, "127.0.0.1:port". Before this call,
  // connections are refused.
  void SetServer(const std::string& address) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- Lasting settings, for all connections together.

  // Delays data by a random time from `mean` - `jitter` to `mean` + `jitter`.
  // The order of the data stays the same.
  void SetDelay(Direction direction, absl::Duration mean, absl::Duration jitter)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Limits the rate; 0 stands for no limit.
  void SetRate(Direction direction, int64_t bytes_per_second)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Holds all bytes back. Nothing is lost, and connections stay open.
  void SetHeld(Direction direction, bool held) ABSL_LOCKS_EXCLUDED(mu_);
  // Like SetHeld, for both directions of one connection.
  void SetConnectionHeld(int connection, bool held) ABSL_LOCKS_EXCLUDED(mu_);
  // Resets new connections at once.
  void SetRefusing(bool refusing) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- One-time faults. Each hits the connection that delivers the byte after
  // `bytes` more bytes in this direction, counted over all connections.
  //
  // Closes (CutAfter) or resets (ResetAfter) the connection before that byte.
  void CutAfter(Direction direction, int64_t bytes);
  void ResetAfter(Direction direction, int64_t bytes);
  // Flips one bit of that byte.
  void FlipAfter(Direction direction, int64_t bytes);

  // ---- Single connections, numbered from 0.
  std::vector<int> OpenConnections() const ABSL_LOCKS_EXCLUDED(mu_);
  void ResetAll() ABSL_LOCKS_EXCLUDED(mu_);
  // Starts to record the bytes that clients send, for Replay.
  void Record() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the bytes that the client of a connection has sent. The connection
  // may be closed.
  std::string Recorded(int connection) const ABSL_LOCKS_EXCLUDED(mu_);
  // Sends these bytes to the server on a new connection and discards the
  // response. Returns the connection's number, or -1 if there is no server.
  int Replay(const std::string& bytes) ABSL_LOCKS_EXCLUDED(mu_);

  Statistics statistics() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind { kCut, kReset, kFlip };
  struct Trigger {
    Kind kind = Kind::kCut;
    // The fault hits when this many bytes have been delivered in its direction.
    int64_t at = 0;
  };
  // The settings and pending faults of one direction.
  struct Link {
    absl::Duration delay;
    absl::Duration jitter;
    int64_t rate = 0;
    double allowance = 0;  // Bytes that the rate permits to send now.
    bool held = false;
    std::vector<Trigger> triggers;
  };
  struct Piece {
    Clock::time_point due;
    std::string bytes;
  };
  struct Pipe {
    int from = -1;
    int to = -1;  // -1 to discard the received bytes.
    std::deque<Piece> pieces;
    size_t queued = 0;
    bool full = false;    // True if the receiver's buffer was full.
    bool ended = false;   // True once the sender has closed this direction.
    bool passed = false;  // True once the receiver's side has been closed.
  };
  struct Connection {
    int number = 0;
    bool held = false;
    bool broken = false;
    Pipe pipes[2];
  };

  void Arm(Direction direction, Kind kind, int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Work() ABSL_LOCKS_EXCLUDED(mu_);
  void Wake();
  void Accept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int ConnectToServer() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void Add(int client, int server) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Flows(const Connection& connection, int direction) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void Move(Connection* connection, int direction)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Read(Connection* connection, int direction)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends up to `most` bytes of the front piece. Returns false if the
  // receiver's buffer is full or the connection was closed.
  bool Deliver(Connection* connection, int direction, int64_t most)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void Close(Connection* connection, bool reset);
  // Returns the number of bytes that may be sent now.
  int64_t Allowance(const Link& link) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  int PollTimeout() const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  std::string address_;
  int listener_ = -1;
  int wake_ = -1;
  mutable absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool refusing_ ABSL_GUARDED_BY(mu_) = false;
  bool recording_ ABSL_GUARDED_BY(mu_) = false;
  int server_port_ ABSL_GUARDED_BY(mu_) = 0;
  Link links_[2] ABSL_GUARDED_BY(mu_);
  Clock::time_point refilled_ ABSL_GUARDED_BY(mu_) = Clock::now();
  std::mt19937_64 random_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mu_);
  // Indexed by number.
  std::vector<std::string> recorded_ ABSL_GUARDED_BY(mu_);
  Statistics statistics_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_NETWORK_TCP_PROXY_H_
