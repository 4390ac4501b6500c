// The limits on everything that a peer can send or hold: one struct, so that
// they can be read in one place and are printed when a server starts.
#ifndef TRIBUTARY_COMMON_BASE_LIMITS_H_
#define TRIBUTARY_COMMON_BASE_LIMITS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace tributary {

// The largest chunk that a job may ask for, in bytes: with the margin for its
// header it must fit in a message.
inline constexpr int kMaxChunkBytes = 3 << 20;

struct Limits {
  // ---- Connections.
  // Open at a time, from all peers and from one address (IPv6: one /64). Each
  // costs a descriptor and some 30 KB. A worker needs one to each server and a
  // second one to server 0. A server that expects many workers from one host
  // has a higher limit than this; see ForWorkers.
  int connections = 4096;
  int connections_per_peer = 256;
  // New connections cost a millisecond each with TLS, whether their peers mean
  // it or not. Every address may open so many at once, and one more a second;
  // what goes beyond that shares so many a second, of which ten seconds' worth
  // may come at once.
  int new_connections_per_peer = 16;
  int new_connections_per_second = 100;
  // Calls at a time on one connection; ours have one each.
  int streams_per_connection = 16;
  // From a connection's first byte to the end of the HTTP/2 preface, TLS
  // included; and again from a stream's beginning to its first message.
  absl::Duration handshake_timeout = absl::Seconds(10);
  // Without any call.
  absl::Duration idle_timeout = absl::Minutes(5);
  // A peer whose machine has vanished is noticed after the sum of these two.
  // Shorter would take a busy machine for a dead one.
  absl::Duration keepalive_interval = absl::Seconds(10);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // A client that pings more often is cut off. Must be shorter than
  // keepalive_interval, or honest ones are.
  absl::Duration min_ping_interval = absl::Seconds(5);

  // ---- One message.
  // Chunk, header and room for the coordinator's tables.
  int message_bytes = kMaxChunkBytes + (1 << 20);
  // All metadata of a call together.
  int metadata_bytes = 8 << 10;

  // ---- What messages say.
  // Members of a job at a time.
  int workers = 1024;
  // Entries of a parameter table, bytes of a name in it, dimensions of a shape,
  // elements of all of them.
  int parameters = 65536;
  int name_bytes = 256;
  int dimensions = 8;
  int64_t elements = int64_t{1} << 33;
  // Bytes of any other text from a peer: host, address, reason of a failure.
  int text_bytes = 4096;
  // Messages within one message, at any depth: counted before it is parsed.
  int submessages = 131072;
};

inline constexpr Limits kDefaultLimits;

// The limits of a server that expects `workers`, all of which may be on one
// host.
Limits ForWorkers(int workers);

// For the log: every limit with its name and unit, on one line.
std::string Describe(const Limits& limits);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_LIMITS_H_
