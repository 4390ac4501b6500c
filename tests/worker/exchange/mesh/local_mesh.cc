#include "tests/worker/exchange/mesh/local_mesh.h"

#include <cstring>
#include <list>
#include <map>
#include <set>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace tributary {
namespace {

// What one end of a message brings to the other.
struct End {
  bool sends = false;
  const void* from = nullptr;  // Send only; may be null if there are no bytes.
  void* to = nullptr;          // Receive only.
  size_t bytes = 0;
  bool done = false;
};

struct Hub {
  absl::Mutex mu;
  // By sender, receiver and tag: ends that wait for the other one.
  std::map<std::tuple<int, int, uint64_t>, std::list<End*>> waiting
      ABSL_GUARDED_BY(mu);
  std::set<int> gone ABSL_GUARDED_BY(mu);
};

class LocalMesh final : public PeerMesh {
 public:
  LocalMesh(std::shared_ptr<Hub> hub, int rank, int size)
      : hub_(std::move(hub)), rank_(rank), size_(size) {}
  ~LocalMesh() override { Abort(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                 size_t bytes) override {
    return std::make_unique<LocalTransfer>(
        hub_, rank_, to, std::make_tuple(rank_, to, tag),
        End{true, data, nullptr, bytes, false});
  }
  std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                    size_t bytes) override {
    return std::make_unique<LocalTransfer>(
        hub_, rank_, from, std::make_tuple(from, rank_, tag),
        End{false, nullptr, data, bytes, false});
  }
  void Abort() override {
    absl::MutexLock lock(&hub_->mu);
    hub_->gone.insert(rank_);
  }

 private:
  class LocalTransfer final : public Transfer {
   public:
    using Key = std::tuple<int, int, uint64_t>;
    LocalTransfer(std::shared_ptr<Hub> hub, int self, int peer, Key key,
                  End end)
        : hub_(std::move(hub)),
          self_(self),
          peer_(peer),
          key_(std::move(key)),
          end_(end) {
      absl::MutexLock lock(&hub_->mu);
      std::list<End*>& others = hub_->waiting[key_];
      if (others.empty() || others.front()->sends == end_.sends) {
        others.push_back(&end_);
        return;
      }
      End* const other = others.front();
      others.pop_front();
      const void* const from = end_.sends ? end_.from : other->from;
      void* const to = end_.sends ? other->to : end_.to;
      if (end_.bytes == other->bytes && end_.bytes > 0) {
        std::memcpy(to, from, end_.bytes);
      }
      end_.done = other->done = true;
    }
    ~LocalTransfer() override {
      absl::MutexLock lock(&hub_->mu);
      hub_->waiting[key_].remove(&end_);
    }
    absl::Status Wait() override {
      const auto over = [this]() ABSL_SHARED_LOCKS_REQUIRED(hub_->mu) {
        return end_.done || hub_->gone.count(self_) > 0 ||
               hub_->gone.count(peer_) > 0;
      };
      absl::MutexLock lock(&hub_->mu, absl::Condition(&over));
      if (hub_->gone.count(self_) > 0) return absl::AbortedError("called off");
      if (end_.done) return absl::OkStatus();
      return absl::UnavailableError(absl::StrCat("member ", peer_, " is gone"));
    }

   private:
    const std::shared_ptr<Hub> hub_;
    const int self_;
    const int peer_;
    const Key key_;
    End end_;
  };

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  const int size_;
};

}  // namespace

std::vector<std::unique_ptr<PeerMesh>> MakeLocalMeshes(int size) {
  const auto hub = std::make_shared<Hub>();
  std::vector<std::unique_ptr<PeerMesh>> meshes;
  for (int rank = 0; rank < size; ++rank) {
    meshes.push_back(std::make_unique<LocalMesh>(hub, rank, size));
  }
  return meshes;
}

}  // namespace tributary
