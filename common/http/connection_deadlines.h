// Closes HTTP connections whose peers take too long to send a request or to
// read a response.
#ifndef TRIBUTARY_COMMON_HTTP_CONNECTION_DEADLINES_H_
#define TRIBUTARY_COMMON_HTTP_CONNECTION_DEADLINES_H_

#include <cstddef>
#include <unordered_map>

#include "absl/time/time.h"

struct bufferevent;
struct event_base;

namespace tributary {

// Keeps a deadline for each connection of a libevent event loop: the time by
// which the next request must be complete, or by which the peer must have read
// the response. libevent's own timeout restarts with each byte, so a peer that
// sends a byte now and then could keep its connection open for hours.
//
// When a deadline passes, this class shuts down the socket. libevent then
// detects the end of the connection and frees it, but does not report that.
// This class therefore looks for the remaining connections among the events of
// the loop, and never dereferences a pointer to a connection that may have been
// freed. Used only by the thread that runs the loop.
class ConnectionDeadlines {
 public:
  struct Options {
    // Maximum time from the start of a connection, or from the end of a
    // response, until the head (request line and headers) of the next request
    // is complete.
    absl::Duration request;
    // Maximum time from the end of a request's head until the kernel has
    // accepted the last byte of the response.
    absl::Duration answer;
    // Maximum number of connections. When a further connection is added, the
    // connection that has waited longest without a complete request is shut
    // down.
    size_t connections = 0;
  };

  // `base` must outlive this object.
  ConnectionDeadlines(event_base* base, const Options& options)
      : base_(base), options_(options) {}

  // Adds a new connection. If the maximum number is reached, first shuts down
  // the connection that has waited longest for a request. Returns false if the
  // caller must stop accepting connections for a moment, because all
  // connections are being answered, or because connections that were shut down
  // are not freed yet.
  bool Add(const bufferevent* connection, absl::Time now);
  // Call when a complete request has been received on `connection`.
  void OnRequest(const bufferevent* connection, absl::Time now);
  // Call when the response has been sent on `connection`.
  void OnAnswered(const bufferevent* connection, absl::Time now);
  // Shuts down the connections whose deadline has passed. Call this function
  // periodically, several times within the shorter one of the two timeouts in
  // Options.
  void Enforce(absl::Time now);
  // Returns the number of connections, including those that were freed since
  // the last call of Enforce.
  size_t count() const { return connections_.size(); }

 private:
  struct Connection {
    absl::Time deadline;
    bool answering = false;
    bool shut = false;
    int fd = -1;  // Valid until the loop handles its next event.
  };

  // Removes the connections that libevent has freed, and sets `fd` of all
  // others.
  void FindLiving();

  event_base* const base_;
  const Options options_;
  std::unordered_map<const void*, Connection> connections_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_HTTP_CONNECTION_DEADLINES_H_
