#include "server/membership/server_roster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text/counted.h"

namespace tributary {

absl::Status ServerRoster::Add(const Enlist& enlist, ServerLink* link,
                               absl::Time now) {
  const int count = static_cast<int>(servers_.size());
  if (enlist.shard() < 0 || enlist.shard() >= count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shard ", enlist.shard(), " of a job with ", Counted(count, "server"),
        ": check --shard and --servers"));
  }
  Server& server = servers_[enlist.shard()];
  if (server.link != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat(
        "shard ", enlist.shard(), " is already served from ",
        server.address.empty() ? "the coordinator" : server.address));
  }
  server.link = link;
  server.address = enlist.address();
  server.local_address = enlist.local_address();
  server.identity = {enlist.host(), enlist.pid(), enlist.release(),
                     enlist.device()};
  if (enlist.has_journal()) server.replicas = enlist.journal();
  server.last_heard = enlist.shard() == 0 ? absl::InfiniteFuture() : now;
  return absl::OkStatus();
}

void ServerRoster::SetHeard(int shard, absl::Time now) {
  Server& server = servers_[shard];
  if (server.last_heard != absl::InfiniteFuture()) server.last_heard = now;
}

std::vector<int> ServerRoster::Expired(absl::Time now,
                                       absl::Duration lease) const {
  std::vector<int> expired;
  for (size_t shard = 0; shard < servers_.size(); ++shard) {
    const Server& server = servers_[shard];
    if (server.link != nullptr && now - server.last_heard > lease) {
      expired.push_back(static_cast<int>(shard));
    }
  }
  return expired;
}

void ServerRoster::Forgive(absl::Duration gap) {
  for (Server& server : servers_) server.last_heard += gap;
}

int ServerRoster::FirstMissing() const {
  for (size_t shard = 0; shard < servers_.size(); ++shard) {
    if (servers_[shard].link == nullptr) return static_cast<int>(shard);
  }
  return -1;
}

bool ServerRoster::Remove(int shard) {
  Server& server = servers_[shard];
  if (server.link == nullptr) return false;
  server.link = nullptr;
  return !std::exchange(server.gone, true);
}

bool ServerRoster::all_there() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const Server& s) { return s.link != nullptr; });
}

bool ServerRoster::all_configured() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const Server& s) { return s.configured; });
}

bool ServerRoster::all_replicated() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const Server& s) { return s.replicated; });
}

bool ServerRoster::all_have(int64_t version) const {
  return std::all_of(
      servers_.begin(), servers_.end(),
      [version](const Server& s) { return s.version >= version; });
}

bool ServerRoster::none_there() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const Server& s) { return s.link == nullptr; });
}

void ServerRoster::Send(const ServerOrder& order) {
  for (Server& server : servers_) {
    if (server.link != nullptr) server.link->Send(order);
  }
}

void ServerRoster::SendEach(const std::function<ServerOrder(int)>& order_to) {
  for (size_t shard = 0; shard < servers_.size(); ++shard) {
    ServerLink* const link = servers_[shard].link;
    if (link != nullptr) link->Send(order_to(static_cast<int>(shard)));
  }
}

void ServerRoster::Close(const absl::Status& status) {
  for (Server& server : servers_) {
    if (server.link != nullptr) server.link->Close(status);
  }
}

}  // namespace tributary
