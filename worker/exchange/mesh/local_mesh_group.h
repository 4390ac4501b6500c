// PeerMesh between threads of one process.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_LOCAL_MESH_GROUP_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_LOCAL_MESH_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/exchange/mesh/gloo_mesh.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

// The memory in which the members of one group find each other's transfers. A
// message is copied once, from the sender's memory to the receiver's, by the
// thread that starts the later of the two transfers. Thread-safe.
class LocalMeshGroup {
 public:
  // `timeout`: how long a transfer waits for the other member.
  LocalMeshGroup(int size, absl::Duration timeout);
  LocalMeshGroup(const LocalMeshGroup&) = delete;
  LocalMeshGroup& operator=(const LocalMeshGroup&) = delete;

  int size() const { return static_cast<int>(present_.size()); }
  // Returns the mesh of member `rank`, which shares the ownership of `group`.
  static std::unique_ptr<PeerMesh> Join(
      const std::shared_ptr<LocalMeshGroup>& group, int rank);
  // Blocks until all members have joined. Returns Unavailable after `timeout`.
  absl::Status AwaitAll(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Mesh;
  class LocalTransfer;
  enum class Presence { kAwaited, kJoined, kLeft };
  // One end of a message. The fields below `bytes` are guarded by mu_.
  struct End {
    bool sends = false;
    const void* from = nullptr;  // Of the sender.
    void* to = nullptr;          // Of the receiver.
    size_t bytes = 0;
    bool copying = false;
    bool done = false;
    absl::Status error;
  };
  // Sender, receiver and tag.
  using Key = std::tuple<int, int, uint64_t>;

  // Matches `end` with the other end of the message, or lets it wait.
  void Start(const Key& key, const std::shared_ptr<End>& end)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Forgets an end that its member gives up. Blocks while it is being copied.
  void GiveUp(const std::shared_ptr<End>& end) ABSL_LOCKS_EXCLUDED(mu_);
  void Leave(int rank) ABSL_LOCKS_EXCLUDED(mu_);
  // Fails the transfers that wait for this member, which has left.
  void Lose(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const absl::Duration timeout_;
  absl::Mutex mu_;
  std::vector<Presence> present_ ABSL_GUARDED_BY(mu_);  // By rank.
  std::map<Key, std::deque<std::shared_ptr<End>>> waiting_ ABSL_GUARDED_BY(mu_);
};

// The groups of one process, by name. Thread-safe.
class LocalMeshes {
 public:
  // Joins the group that the members agree on through the rendezvous of
  // `options`, as ConnectGlooMesh connects them.
  absl::StatusOr<std::unique_ptr<PeerMesh>> Connect(
      const GlooMeshOptions& options) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;
  // Groups that are not complete yet, or that still have members.
  std::map<std::string, std::weak_ptr<LocalMeshGroup>> groups_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_LOCAL_MESH_GROUP_H_
