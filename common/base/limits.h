// The limits on everything that a peer can send or keep open. One struct holds
// all limits, and a server logs them when it starts.
#ifndef TRIBUTARY_COMMON_BASE_LIMITS_H_
#define TRIBUTARY_COMMON_BASE_LIMITS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace tributary {

// The largest chunk size that a job may set, in bytes. A chunk and its header
// must fit in one message.
inline constexpr int kMaxChunkBytes = 3 << 20;

// The most bytes of frozen parameters and buffers that a worker sends for the
// file of the final model. Server 0 keeps them in memory until it has written
// the file.
inline constexpr int64_t kMaxUntrainedBytes = int64_t{4} << 30;

struct Limits {
  // ---- Connections.
  //
  // Maximum number of open connections, in total and from one address (IPv6:
  // one /64 network). Each connection costs a file descriptor and about 30 KB
  // of memory. A worker opens one connection to each server and a second
  // connection to server 0. A server that expects many workers from one host
  // raises these limits; see ForWorkers.
  int connections = 4096;
  int connections_per_peer = 256;
  // Limits on new connections, each of which costs about a millisecond with
  // TLS. Each address may open new_connections_per_peer connections at once,
  // and then one per second. Connections beyond that count against a limit that
  // all addresses share: new_connections_per_second, with bursts of up to ten
  // times as many.
  int new_connections_per_peer = 16;
  int new_connections_per_second = 100;
  // Maximum number of concurrent calls on one connection. Tributary's own
  // connections carry one call each.
  int streams_per_connection = 16;
  // Maximum time from the acceptance of a connection to the end of the HTTP/2
  // preface, including the TLS handshake. Also the maximum time from the start
  // of a stream to its first message.
  absl::Duration handshake_timeout = absl::Seconds(10);
  // Time after which a connection without calls is closed.
  absl::Duration idle_timeout = absl::Minutes(5);
  // keepalive_interval is the interval between two keepalive pings to a peer.
  // keepalive_timeout is the time within which the peer must answer. The
  // failure of a peer's machine is detected after at most the sum of the two.
  // Smaller values would disconnect peers on busy machines.
  absl::Duration keepalive_interval = absl::Seconds(10);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // Minimum interval between two keepalive pings of a client; a client that
  // pings more often is disconnected. Must be shorter than keepalive_interval,
  // or correct clients are disconnected too.
  absl::Duration min_ping_interval = absl::Seconds(5);

  // ---- Size of one message.
  //
  // Maximum size of a message in bytes. The largest messages contain either
  // a chunk and its header, or a list, such as the parameter table.
  int message_bytes = kMaxChunkBytes + (1 << 20);
  // Maximum size of all metadata of one call, in bytes.
  int metadata_bytes = 8 << 10;

  // ---- Contents of messages.
  //
  // Maximum number of workers that are members of a job at a time.
  int workers = 1024;
  // Limits on a model's parameter table: the number of parameters, the bytes in
  // a parameter's name, the dimensions of a parameter's shape, and the elements
  // of all parameters together.
  int parameters = 65536;
  int name_bytes = 256;
  int dimensions = 8;
  int64_t elements = int64_t{1} << 33;
  // Maximum number of bytes of a text from a peer, such as a host, an address
  // or the reason for a failure. Names of parameters have a limit of their own.
  int text_bytes = 4096;
  // Maximum number of messages nested in one message, at any depth. They are
  // counted before the message is parsed.
  int submessages = 131072;
  // Maximum depth of messages nested in one another.
  int nesting_depth = 16;
};

inline constexpr Limits kDefaultLimits;

// Returns the limits of a server that expects `workers` workers, all of which
// may run on one host.
Limits ForWorkers(int workers);

// Returns one line with the name, the value and the unit of every limit, for
// the log.
std::string DescribeLimits(const Limits& limits);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_LIMITS_H_
