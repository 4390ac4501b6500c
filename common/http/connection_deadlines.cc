#include "common/http/connection_deadlines.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>

#include <iterator>

namespace tributary {

bool ConnectionDeadlines::Add(const bufferevent* connection, absl::Time now) {
  bool room = true;
  if (connections_.size() >= options_.connections) {
    FindLiving();
    Connection* oldest = nullptr;
    for (auto& [key, other] : connections_) {
      if (other.answering || other.shut || other.fd < 0) continue;
      if (oldest == nullptr || other.deadline < oldest->deadline) {
        oldest = &other;
      }
    }
    if (connections_.size() >= options_.connections) {
      if (oldest != nullptr) {
        // A request that has arrived already is still read and answered.
        shutdown(oldest->fd, SHUT_RD);
        oldest->shut = true;
      }
      room =
          oldest != nullptr && connections_.size() < 2 * options_.connections;
    }
  }
  connections_[connection] = {now + options_.request};
  return room;
}

void ConnectionDeadlines::OnRequest(const bufferevent* connection,
                                    absl::Time now) {
  Connection& state = connections_[connection];
  state.answering = true;
  state.deadline = now + options_.answer;
}

void ConnectionDeadlines::OnAnswered(const bufferevent* connection,
                                     absl::Time now) {
  Connection& state = connections_[connection];
  state.answering = false;
  state.deadline = now + options_.request;
}

void ConnectionDeadlines::Enforce(absl::Time now) {
  FindLiving();
  for (auto& [key, connection] : connections_) {
    if (connection.fd < 0 || now < connection.deadline) continue;
    // Ends an answer that the peer does not read, too.
    shutdown(connection.fd, SHUT_RDWR);
    connection.shut = true;
  }
}

void ConnectionDeadlines::FindLiving() {
  for (auto& [key, connection] : connections_) connection.fd = -1;
  event_base_foreach_event(
      base_,
      [](const event_base*, const event* event, void* connections) {
        auto& found =
            *static_cast<std::unordered_map<const void*, Connection>*>(
                connections);
        // A bufferevent's events have the bufferevent as their argument.
        const auto it = found.find(event_get_callback_arg(event));
        if (it != found.end() && event_get_fd(event) >= 0) {
          it->second.fd = event_get_fd(event);
        }
        return 0;
      },
      &connections_);
  for (auto it = connections_.begin(); it != connections_.end();) {
    it = it->second.fd < 0 ? connections_.erase(it) : std::next(it);
  }
}

}  // namespace tributary
