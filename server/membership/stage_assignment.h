// Divides the stages of pipelines among the workers of a job.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_STAGE_ASSIGNMENT_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_STAGE_ASSIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/membership/assignment.h"

namespace tributary {

// The stages [begin, end) of a pipeline.
struct StageRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  bool operator==(const StageRange& other) const {
    return begin == other.begin && end == other.end;
  }
  bool operator!=(const StageRange& other) const { return !(*this == other); }
};

// What one worker computes: contiguous stages of one replica, which is a copy
// of the whole pipeline.
struct StageShare {
  // The number of the replica, or -1 for a spare: a worker without stages.
  int replica = -1;
  StageRange stages;

  bool spare() const { return replica < 0; }
  bool operator==(const StageShare& other) const {
    return replica == other.replica && stages == other.stages;
  }
  bool operator!=(const StageShare& other) const { return !(*this == other); }
};

// Decides which worker computes which stages, and which micro-batches each
// replica computes, so that every stage of every micro-batch of a step belongs
// to exactly one worker. A worker that gets other stages has to fetch their
// weights, so a worker keeps its stages where it can. A worker that gets other
// micro-batches has to fetch nothing.
//
// Workers are identified by their positions in the argument of each method.
// Workers that come first get the first stages. Pure; thread-safe.
class StageAssignment {
 public:
  // Pipelines have `stages` stages, and a step has `micro_batches`
  // micro-batches; both at least 1.
  StageAssignment(int stages, int micro_batches)
      : stages_(stages), micro_batches_(micro_batches) {}

  // Returns the share of each worker, given the shares that the workers have
  // now. The shares of each replica cover every stage exactly once.
  //
  // - There are as many replicas as have a worker for each stage, at least one
  //   and at most as many as micro-batches. With fewer workers than stages, the
  //   workers of the only replica compute several stages each.
  // - If a worker of a replica was lost, a spare takes its stages. Without a
  //   spare, its neighbours in the pipeline take them in addition. A replica is
  //   given up if the workers suffice for less than half of its stages; its
  //   workers then replace lost workers of other replicas, or become spares.
  // - Within a replica, no worker computes more stages than necessary. Of all
  //   divisions that fulfill this, the one is chosen that changes the fewest
  //   workers.
  // - A spare takes stages from workers that compute several, unless the
  //   largest number of stages of a worker would stay the same: the slowest
  //   worker determines the speed of a pipeline.
  // - Replicas keep their numbers.
  std::vector<StageShare> Place(const std::vector<StageShare>& present) const;

  // Returns workers of `replica` whose stages cover the pipeline exactly once,
  // in the order of their stages, or nothing if there are none. Considers only
  // workers that are `usable`. If several choices exist, returns one with as
  // many workers as possible.
  std::vector<size_t> Complete(int replica,
                               const std::vector<StageShare>& shares,
                               const std::vector<bool>& usable) const;

  // Returns the pace of a replica that consists of these workers: that of the
  // slowest of them. `paces` are the workers' paces for one stage.
  static WorkerPace PaceOf(const std::vector<size_t>& workers,
                           const std::vector<StageShare>& shares,
                           const std::vector<WorkerPace>& paces);

  int stages() const { return stages_; }
  int micro_batches() const { return micro_batches_; }

 private:
  // A replica while Place decides.
  struct Replica {
    int number = 0;
    // Workers that have a share of this replica, or one that fits into it.
    std::vector<size_t> holders;
    std::vector<size_t> newcomers;

    int size() const {
      return static_cast<int>(holders.size() + newcomers.size());
    }
  };

  // Moves workers from `*free` to replicas that lack a worker for some stages.
  void FillGaps(const std::vector<StageShare>& present,
                std::vector<Replica>* replicas,
                std::vector<size_t>* free) const;
  // Moves workers from `*free` to the replicas that become faster by them.
  void AddWorkers(std::vector<Replica>* replicas,
                  std::vector<size_t>* free) const;
  // Returns the number of workers, of at most `available`, that make a replica
  // of `workers` workers faster; 0 if none do.
  int Needed(int workers, int available) const;
  // Returns the largest number of stages of a worker if `workers` workers
  // divide the stages.
  int Load(int workers) const { return (stages_ + workers - 1) / workers; }
  // Returns the longest ranges of stages that no holder of the replica has.
  std::vector<StageRange> GapsOf(const Replica& replica,
                                 const std::vector<StageShare>& present) const;
  // Divides the stages of a replica among its workers.
  void Divide(const Replica& replica, const std::vector<StageShare>& present,
              std::vector<StageShare>* shares) const;

  const int stages_;
  const int micro_batches_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_STAGE_ASSIGNMENT_H_
