// Ends connections that keep a server waiting.
#ifndef TRIBUTARY_COMMON_HTTP_CONNECTION_DEADLINES_H_
#define TRIBUTARY_COMMON_HTTP_CONNECTION_DEADLINES_H_

#include <cstddef>
#include <unordered_map>

#include "absl/time/time.h"

struct bufferevent;
struct event_base;

namespace tributary {

// Gives each connection of an event loop a time by which its next request must
// be complete, or by which its peer must have read the answer. libevent's own
// timeout begins again with each byte, so a peer that sends a byte now and then
// would keep its connection for hours.
//
// A connection is shut down, not freed: libevent then sees its end, and frees
// it. Because libevent does not tell when it frees one, the connections that
// are left are found among the loop's events; a pointer that was freed is never
// dereferenced. Used by the loop's thread only.
class ConnectionDeadlines {
 public:
  struct Options {
    // From the beginning of the connection, or from the end of an answer, to
    // the last byte of the head of the next request.
    absl::Duration request;
    // From the last byte of a request's head to the last byte of the answer
    // that the kernel accepts.
    absl::Duration answer;
    // Maximum number of connections. A further one ends the one that has
    // waited longest without a complete request.
    size_t connections = 0;
  };

  // `base` must outlive this object.
  ConnectionDeadlines(event_base* base, const Options& options)
      : base_(base), options_(options) {}

  // Adds a new connection. If there are too many, first shuts down the one that
  // has waited longest for a request. Returns false if the caller must not
  // accept more connections for a moment, because all are being answered, or
  // because those that were shut down are not freed yet.
  bool Add(const bufferevent* connection, absl::Time now);
  // The connection has received a complete request.
  void OnRequest(const bufferevent* connection, absl::Time now);
  // The answer was sent.
  void OnAnswered(const bufferevent* connection, absl::Time now);
  // Shuts down the connections whose deadline has passed. Call it several times
  // in each interval of the shorter timeout.
  void Enforce(absl::Time now);
  // Returns the number of connections, including those that were freed since
  // the last call of Enforce.
  size_t count() const { return connections_.size(); }

 private:
  struct Connection {
    absl::Time deadline;
    bool answering = false;
    bool shut = false;
    int fd = -1;  // Valid until the loop runs its next event.
  };

  // Removes the connections that libevent has freed, and finds the sockets of
  // the others.
  void FindLiving();

  event_base* const base_;
  const Options options_;
  std::unordered_map<const void*, Connection> connections_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_HTTP_CONNECTION_DEADLINES_H_
