// The connection between the launcher of a Slurm job and its agent on a node.
#ifndef TRIBUTARY_DEPLOY_SLURM_AGENT_CONNECTION_H_
#define TRIBUTARY_DEPLOY_SLURM_AGENT_CONNECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// The ends of a connection.
enum class AgentRole { kLauncher, kAgent };

// Authenticates the lines of one connection. Both ends know a secret key. Each
// line begins with a code (HMAC-SHA256) of the key, the connection's nonce, the
// sender's role, the number of the line, and the line. A line that somebody
// else has written, repeated, or moved is therefore refused. The lines are not
// encrypted.
class LineSeal {
 public:
  LineSeal(std::string key, std::string nonce, AgentRole role);

  // Returns `text`, which has no line end, with its code.
  std::string Seal(absl::string_view text);
  // Returns the text of the peer's next line. Returns PermissionDenied if its
  // code is wrong.
  absl::StatusOr<std::string> Open(absl::string_view line);

 private:
  std::string Code(AgentRole sender, uint64_t number,
                   absl::string_view text) const;

  const std::string key_;
  const std::string nonce_;
  const AgentRole role_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

// Returns 32 random bytes as hex digits, for keys and nonces.
absl::StatusOr<std::string> RandomKey();

// A TCP socket that carries lines of text. Not thread-safe; no method blocks.
class LineSocket {
 public:
  // Takes ownership of the connected socket `fd`.
  explicit LineSocket(int fd);
  ~LineSocket();
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&& other) noexcept;

  // Queues a line and sends what the socket accepts.
  void Send(absl::string_view line);
  // Sends more of the queued lines.
  void Flush();
  // Returns the complete lines that have arrived, at most `most`.
  std::vector<std::string> Receive(size_t most);
  // False if the peer has closed the connection, the connection has failed, or
  // the peer sends too long lines or does not read.
  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void Close();

 private:
  int fd_;
  std::string in_;
  std::string out_;
};

// A connection of which both ends have proved that they know the key. Not
// thread-safe; no method blocks.
class AgentConnection {
 public:
  AgentConnection(LineSocket socket, LineSeal seal);

  void Send(const nlohmann::json& message);
  // Returns the messages that have arrived, without the heartbeats. Closes the
  // connection if a line is not the peer's.
  std::vector<nlohmann::json> Receive();
  // Sends a heartbeat if one is due. Closes the connection if the peer has been
  // silent for a time in which this process has sent kMostSilentBeats. A time
  // in which this process itself did not run, as when Slurm suspends the job,
  // does not count.
  void Beat(absl::Time now);
  bool open() const { return socket_.open(); }
  int fd() const { return socket_.fd(); }
  void Close() { socket_.Close(); }

  static constexpr int kMostSilentBeats = 20;
  static constexpr absl::Duration kBeat = absl::Seconds(1);

 private:
  LineSocket socket_;
  LineSeal seal_;
  absl::Time next_beat_ = absl::InfinitePast();
  int silent_beats_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_SLURM_AGENT_CONNECTION_H_
