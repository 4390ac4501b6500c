// One stay of a simulated worker in a job, from Join to Farewell: the parts of
// RunWorker, the trainer and the exchange around the real WorkState and
// SubtreeReducer.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_STAY_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_STAY_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/buffer_pool.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/world.h"
#include "worker/exchange/norm_gate.h"
#include "worker/exchange/subtree_reducer.h"
#include "worker/state/work_state.h"

namespace tributary::simulation {

class WorkerStay {
 public:
  struct Options {
    int rank = -1;
    absl::Duration connect_timeout;
    // Compute time of one micro-batch on this worker.
    absl::Duration micro_batch;
  };
  // Calls `over` once, at the end, in an event of its own. It may destroy this
  // object.
  WorkerStay(World* world, std::shared_ptr<Life> scope, const Options& options,
             std::function<void(const absl::Status&)> over);
  ~WorkerStay();

  bool admitted() const { return admission_.has_value(); }
  bool stopped() const { return stopped_; }
  std::string State() const;

 private:
  // The connection to one server.
  struct Stream {
    std::shared_ptr<Link> link;
    std::multimap<int64_t, WorkerMessage> queue;
    bool flushing = false;
    // Weights whose buffer is in use, and all later messages.
    std::deque<ServerMessage> parked;
    bool gone = false;
  };

  // Membership.
  void OnConnected(absl::StatusOr<std::shared_ptr<Link>> link);
  void OnOrder(const CoordinatorOrder& order);
  void OnMembershipGone(const absl::Status& status);
  void Beat(absl::Duration interval);
  void Report(const WorkerReport& report);
  void SetUp();

  // Exchange.
  void ConnectNext();
  void OnServerMessage(int shard, const ServerMessage& message);
  bool Handle(const ServerMessage& message);
  void RetryParked();
  void Queue(int shard, int64_t priority, WorkerMessage message);
  void Flush(int shard);
  void Push(int64_t step, const NodeChunk& sum);
  void PushInitial();

  // Training.
  void Poke();
  void Work();
  // Begins the task that the state has chosen. Returns false if nothing of it
  // remains.
  bool Begin();
  enum class Presence { kThere, kMissing, kGivenUp };
  Presence AwaitWeights();
  bool MayAwait(int chunk) const;
  void DoItem();
  void Finish();

  void Fail(const absl::Status& status);
  void End(const absl::Status& status);

  World* const world_;
  const std::shared_ptr<Life> scope_;
  const Options options_;
  const std::function<void(const absl::Status&)> over_;

  std::shared_ptr<Link> membership_;
  bool membership_gone_ = false;
  absl::Status ended_;
  std::optional<Admission> admission_;
  bool opened_ = false;
  bool finished_ = false;
  bool stopped_ = false;
  bool ending_ = false;
  std::string phase_ = "connecting";

  std::unique_ptr<WorkState> state_;
  std::vector<Stream> streams_;
  bool finishing_ = false;
  bool training_ = false;

  BufferPool arenas_;
  bool poked_ = false;
  bool busy_ = false;
  std::optional<Task> task_;
  size_t item_ = 0;
  int next_chunk_ = 0;
  std::unique_ptr<NormGate> norm_gate_;
  std::unique_ptr<SubtreeReducer> reducer_;
  // The contents of the state, tracked so that it is never asked to wait: the
  // version of each chunk in each of the two arenas, and the number of missing
  // outcomes by chunk.
  std::vector<int64_t> versions_[2];
  std::vector<int> unanswered_;
  int64_t round_ = -1;
  int64_t micro_batches_ = 0;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_WORKER_STAY_H_
