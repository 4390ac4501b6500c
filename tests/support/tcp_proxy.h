// A bad network on loopback: everything that a server and its clients say to
// one another goes through it, and it does to the bytes what tests tell it.
#ifndef TRIBUTARY_TESTS_SUPPORT_TCP_PROXY_H_
#define TRIBUTARY_TESTS_SUPPORT_TCP_PROXY_H_

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

// Thread-safe. One thread of its own moves all bytes.
class TcpProxy {
 public:
  enum Direction { kToServer = 0, kToClient = 1 };
  struct Statistics {
    int connections = 0;    // Ever, replayed ones included.
    int refused = 0;        // Not counted above.
    int faults = 0;         // Cuts, resets and flips that have happened.
    int64_t bytes[2] = {};  // Delivered, by direction.
  };

  // Listens on a port of 127.0.0.1; jitter depends on the seed only.
  explicit TcpProxy(uint64_t seed = 1);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  // For clients: host:port.
  const std::string& address() const { return address_; }
  // Where new connections lead, "127.0.0.1:port". Before, they are refused.
  void SetServer(const std::string& address) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- What holds from now on, for all connections together.
  // Each piece comes `mean` later, give or take `jitter`, in order.
  void SetDelay(Direction direction, absl::Duration mean, absl::Duration jitter)
      ABSL_LOCKS_EXCLUDED(mu_);
  // 0: as fast as it goes.
  void SetRate(Direction direction, int64_t bytes_per_second)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Nothing is delivered, and nothing lost; connections stay open.
  void SetHeld(Direction direction, bool held) ABSL_LOCKS_EXCLUDED(mu_);
  // The same for one connection, in both directions.
  void SetConnectionHeld(int connection, bool held) ABSL_LOCKS_EXCLUDED(mu_);
  // New connections are reset at once.
  void SetRefusing(bool refusing) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- What happens once, to the connection that delivers the byte after
  // `bytes` more in this direction, all connections together.
  void CutAfter(Direction direction, int64_t bytes);
  void ResetAfter(Direction direction, int64_t bytes);
  // One bit of that byte changes.
  void FlipAfter(Direction direction, int64_t bytes);

  // ---- Single connections, which count from 0.
  std::vector<int> OpenConnections() const ABSL_LOCKS_EXCLUDED(mu_);
  void ResetAll() ABSL_LOCKS_EXCLUDED(mu_);
  // From now on what clients say is kept, for Replay.
  void Record() ABSL_LOCKS_EXCLUDED(mu_);
  // What the client of a connection has said, which may be closed.
  std::string Recorded(int connection) const ABSL_LOCKS_EXCLUDED(mu_);
  // Says these bytes to the server in a new connection; what it answers goes
  // nowhere. -1: there is no server.
  int Replay(const std::string& bytes) ABSL_LOCKS_EXCLUDED(mu_);

  Statistics statistics() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind { kCut, kReset, kFlip };
  struct Trigger {
    Kind kind = Kind::kCut;
    int64_t at = 0;  // Bytes delivered in its direction.
  };
  // What holds for a direction.
  struct Link {
    absl::Duration delay;
    absl::Duration jitter;
    int64_t rate = 0;
    double allowance = 0;  // Bytes that may be sent at once.
    bool held = false;
    std::vector<Trigger> triggers;
  };
  struct Piece {
    Clock::time_point due;
    std::string bytes;
  };
  struct Pipe {
    int from = -1;
    int to = -1;  // -1: what comes is thrown away.
    std::deque<Piece> pieces;
    size_t queued = 0;
    bool full = false;    // The receiver's buffer was.
    bool ended = false;   // The sender has said that nothing more comes,
    bool passed = false;  // and the receiver knows.
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
  // Whether the front piece, of which `most` bytes may go, went on its way.
  bool Deliver(Connection* connection, int direction, int64_t most)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void Close(Connection* connection, bool reset);
  // Bytes that may be sent now.
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
  std::vector<std::string> recorded_ ABSL_GUARDED_BY(mu_);  // By number.
  Statistics statistics_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_TCP_PROXY_H_
