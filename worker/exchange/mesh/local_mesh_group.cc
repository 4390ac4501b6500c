#include "worker/exchange/mesh/local_mesh_group.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"

namespace tributary {

class LocalMeshGroup::Mesh final : public PeerMesh {
 public:
  Mesh(std::shared_ptr<LocalMeshGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  ~Mesh() override { group_->Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                 size_t bytes) override;
  std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                    size_t bytes) override;
  void Abort() override {
    {
      absl::MutexLock lock(&group_->mu_);
      aborted_ = true;
    }
    // On a GPU that members share, the operations of the others must end before
    // the memory of this one can be freed.
    group_->Leave(rank_);
  }

 private:
  friend class LocalTransfer;

  const std::shared_ptr<LocalMeshGroup> group_;
  const int rank_;
  bool aborted_ = false;  // Guarded by group_->mu_.
};

class LocalMeshGroup::LocalTransfer final : public PeerMesh::Transfer {
 public:
  LocalTransfer(Mesh* mesh, std::shared_ptr<End> end)
      : mesh_(*mesh), end_(std::move(end)) {}
  ~LocalTransfer() override { mesh_.group_->GiveUp(end_); }

  absl::Status Wait() override {
    LocalMeshGroup& group = *mesh_.group_;
    const auto over = [this] {
      return end_->done || !end_->error.ok() ||
             (mesh_.aborted_ && !end_->copying);
    };
    absl::MutexLock lock(&group.mu_);
    const bool in_time =
        AwaitFor(&group.mu_, absl::Condition(&over), group.timeout_);
    if (mesh_.aborted_) {
      return absl::AbortedError("the all-reduce was cancelled");
    }
    if (end_->done) return absl::OkStatus();
    if (!in_time) {
      return absl::UnavailableError("a member of the all-reduce: timed out");
    }
    return end_->error;
  }

 private:
  Mesh& mesh_;
  const std::shared_ptr<End> end_;
};

std::unique_ptr<PeerMesh::Transfer> LocalMeshGroup::Mesh::Send(int to,
                                                               uint64_t tag,
                                                               const void* data,
                                                               size_t bytes) {
  auto end = std::make_shared<End>();
  end->sends = true;
  end->from = data;
  end->bytes = bytes;
  group_->Start({rank_, to, tag}, end);
  return std::make_unique<LocalTransfer>(this, std::move(end));
}

std::unique_ptr<PeerMesh::Transfer> LocalMeshGroup::Mesh::Receive(
    int from, uint64_t tag, void* data, size_t bytes) {
  auto end = std::make_shared<End>();
  end->to = data;
  end->bytes = bytes;
  group_->Start({from, rank_, tag}, end);
  return std::make_unique<LocalTransfer>(this, std::move(end));
}

LocalMeshGroup::LocalMeshGroup(int size, absl::Duration timeout)
    : timeout_(timeout),
      present_(static_cast<size_t>(size), Presence::kAwaited) {}

std::unique_ptr<PeerMesh> LocalMeshGroup::Join(
    const std::shared_ptr<LocalMeshGroup>& group, int rank) {
  absl::MutexLock lock(&group->mu_);
  group->present_[static_cast<size_t>(rank)] = Presence::kJoined;
  return std::make_unique<Mesh>(group, rank);
}

absl::Status LocalMeshGroup::AwaitAll(absl::Duration timeout) {
  const auto complete = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return std::count(present_.begin(), present_.end(), Presence::kAwaited) ==
           0;
  };
  absl::MutexLock lock(&mu_);
  if (AwaitFor(&mu_, absl::Condition(&complete), timeout)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("a member of the all-reduce does not connect");
}

void LocalMeshGroup::Start(const Key& key, const std::shared_ptr<End>& end) {
  std::shared_ptr<End> other;
  {
    absl::MutexLock lock(&mu_);
    std::deque<std::shared_ptr<End>>& queue = waiting_[key];
    if (queue.empty() || queue.front()->sends == end->sends) {
      const int peer = end->sends ? std::get<1>(key) : std::get<0>(key);
      queue.push_back(end);
      if (present_[static_cast<size_t>(peer)] == Presence::kLeft) Lose(peer);
      return;
    }
    other = std::move(queue.front());
    queue.pop_front();
    if (queue.empty()) waiting_.erase(key);
    end->copying = true;
    other->copying = true;
  }
  const End& sender = end->sends ? *end : *other;
  const End& receiver = end->sends ? *other : *end;
  const bool fits = sender.bytes == receiver.bytes;
  if (fits && sender.bytes > 0) {
    std::memcpy(receiver.to, sender.from, sender.bytes);
  }
  absl::MutexLock lock(&mu_);
  for (End* const one : {end.get(), other.get()}) {
    one->copying = false;
    one->done = fits;
    if (!fits) {
      one->error = absl::InternalError(absl::StrCat(
          "a message of ", sender.bytes, " bytes for ", receiver.bytes));
    }
  }
}

void LocalMeshGroup::GiveUp(const std::shared_ptr<End>& end) {
  const auto idle = [&] { return !end->copying; };
  absl::MutexLock lock(&mu_);
  Await(&mu_, absl::Condition(&idle));
  if (end->done) return;
  for (auto& [key, queue] : waiting_) {
    queue.erase(std::remove(queue.begin(), queue.end(), end), queue.end());
  }
}

void LocalMeshGroup::Leave(int rank) {
  absl::MutexLock lock(&mu_);
  present_[static_cast<size_t>(rank)] = Presence::kLeft;
  Lose(rank);
}

void LocalMeshGroup::Lose(int rank) {
  for (auto& [key, queue] : waiting_) {
    if (std::get<0>(key) != rank && std::get<1>(key) != rank) continue;
    for (const std::shared_ptr<End>& end : queue) {
      end->error = absl::UnavailableError(
          absl::StrCat("member ", rank, " of ", present_.size(),
                       " of the all-reduce: the connection was lost"));
    }
    queue.clear();
  }
}

absl::StatusOr<std::unique_ptr<PeerMesh>> LocalMeshes::Connect(
    const GlooMeshOptions& options) {
  // Member 0 creates the group, and publishes its name.
  std::shared_ptr<LocalMeshGroup> group;
  if (options.rank == 0) {
    group = std::make_shared<LocalMeshGroup>(options.size, options.timeout);
    std::string name;
    {
      absl::MutexLock lock(&mu_);
      for (auto it = groups_.begin(); it != groups_.end();) {
        it = it->second.expired() ? groups_.erase(it) : std::next(it);
      }
      name = absl::StrCat(next_++);
      groups_[name] = group;
    }
    TRIBUTARY_RETURN_IF_ERROR(options.publish("0", name));
  } else {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string name, options.find("0"));
    absl::MutexLock lock(&mu_);
    const auto found = groups_.find(name);
    if (found != groups_.end()) group = found->second.lock();
    if (group == nullptr) {
      return absl::UnavailableError("member 0 of the all-reduce has left");
    }
  }
  std::unique_ptr<PeerMesh> mesh = LocalMeshGroup::Join(group, options.rank);
  TRIBUTARY_RETURN_IF_ERROR(group->AwaitAll(options.connect_timeout));
  return mesh;
}

}  // namespace tributary
