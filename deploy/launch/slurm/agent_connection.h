// The connection between the launcher of a job in a Slurm allocation and its
// agent on a node.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_AGENT_CONNECTION_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_AGENT_CONNECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// The two ends of a connection: the launcher of a job, and an agent, which
// starts the job's processes on a node.
enum class AgentRole { kLauncher, kAgent };

// Authenticates the lines of text on one connection with a secret key that both
// ends know. Each line begins with a code: the HMAC-SHA256 of the connection's
// nonce, the sender's role, the number of the line, and the text of the line.
// Lines that a third process has written, repeated or reordered are therefore
// refused. The lines are not encrypted.
class LineSeal {
 public:
  LineSeal(std::string key, std::string nonce, AgentRole role);

  // Returns the line to send: the code of `text`, followed by `text`, which
  // must not contain a line end.
  std::string Seal(absl::string_view text);
  // Checks `line`, the next line that was received from the peer, and returns
  // its text. Returns PermissionDenied if the code at the start of the line is
  // wrong.
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

  // Queues a line, and sends as many of the queued bytes as the socket accepts.
  void Send(absl::string_view line);
  // Sends as many of the queued bytes as the socket accepts.
  void Flush();
  // Returns the complete lines that have arrived, without line ends; at most
  // `most` of them.
  std::vector<std::string> Receive(size_t most);
  // Returns false if Close was called, the peer has closed the connection, the
  // connection has failed, or the peer has sent a line that is too long or does
  // not read what this process sends.
  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void Close();

 private:
  int fd_;
  std::string in_;
  std::string out_;
};

// A connection that carries JSON messages between a launcher and an agent. Both
// have proved to each other that they know the connection's secret key. Not
// thread-safe; no method blocks.
class AgentConnection {
 public:
  AgentConnection(LineSocket socket, LineSeal seal);

  void Send(const nlohmann::json& message);
  // Returns the messages that have arrived, except heartbeats. Closes the
  // connection if a line does not come from the peer (see LineSeal).
  std::vector<nlohmann::json> Receive();
  // Sends a heartbeat if one is due. Closes the connection if the peer has sent
  // nothing while this process has sent kMostSilentBeats heartbeats. Periods in
  // which this process does not run, for example while Slurm suspends the job,
  // do not count, because it sends no heartbeats then.
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

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_AGENT_CONNECTION_H_
