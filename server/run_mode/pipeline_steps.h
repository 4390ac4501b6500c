// The run mode of a pipeline.
#ifndef TRIBUTARY_SERVER_RUN_MODE_PIPELINE_STEPS_H_
#define TRIBUTARY_SERVER_RUN_MODE_PIPELINE_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/stage_assignment.h"
#include "server/membership/stage_map.h"
#include "server/run_mode/run_mode.h"

namespace tributary {

// The run mode of a job whose model is divided into stages. Each worker
// computes contiguous stages of one replica of the pipeline, for the
// micro-batches of that replica; see StageAssignment.
//
// The stages are chosen once, for the workers that are there when the job
// begins (see ChooseStages). A worker is told its stages (Stage), fetches their
// weights, and reports Synced. Micro-batches are assigned to the replicas whose
// workers are all synced. If a worker is lost, the micro-batches of its replica
// move to the other replicas until a worker that takes over its stages is
// synced. If a worker joins that makes a replica faster, the replica continues
// with its former workers until the new worker is synced; only then are the
// others told to give stages away.
class PipelineSteps final : public RunMode {
 public:
  // The pipeline has `stages` stages.
  PipelineSteps(const JobSpec& job, int stages, Membership* membership,
                ServerRoster* servers);

  // Returns InvalidArgument if the segments of the worker's model are invalid
  // (see StageMap and CheckSegments), or FailedPrecondition if they are not
  // those of the job's model.
  absl::Status OnReady(int64_t worker, const Ready& ready) override;
  void Begin(int64_t version, const Ready& ready) override;
  absl::StatusOr<std::vector<std::string>> ChooseStages() override;

  std::map<int64_t, std::vector<CoordinatorOrder>> OrderStages(
      absl::Time now) override;
  bool OnSynced(const Member& worker, const Synced& synced) override;
  // Orders stages, and assigns the micro-batches and the pieces to the replicas
  // that are complete. Returns no Deals if none would change, apart from its
  // generation.
  std::map<int64_t, std::vector<CoordinatorOrder>> Assign(
      int64_t pieces, absl::Time now) override;
  bool AssignmentIsSlow(absl::Time now) const override;
  // Returns a straggler, according to the heartbeats, or, if no replica is
  // complete, a worker that has not reported Synced.
  const Member* Awaited(int64_t step) const override;
  void OnStepComplete(int64_t step) override;
  void RemoveWorker(int64_t worker) override {
    workers_.erase(worker);
    reports_.erase(worker);
  }
  // Returns the number of workers that would have stages if all stages were
  // ordered now.
  int Places() const;

 private:
  // What is known about an opened worker. A worker without an entry is a spare
  // that was never told a Stage.
  struct Worker {
    StageShare share;        // Of its newest Stage; none for a spare.
    int64_t generation = 0;  // Of its newest Stage.
    bool synced = false;     // It has reported Synced for this Stage.
    // Its newest Deal, without its generation and first_step. Absent: it has
    // not had a Deal since its newest Stage.
    std::optional<Deal> deal;
  };
  // The opened members and their shares, in the order in which they get stages:
  // that of ChooseStages, and then that of their ranks.
  struct Lineup {
    std::vector<Member*> members;
    std::vector<StageShare> shares;
    std::vector<bool> synced;
    // Of each complete replica, by its number: the positions of its workers, in
    // the order of their stages.
    std::map<int, std::vector<size_t>> complete;
  };

  absl::StatusOr<StageMap> SegmentsOf(const Ready& ready) const;
  // Returns the opened members in the order in which they get stages.
  std::vector<Member*> OpenedMembers() const;
  Lineup LineUp() const;
  // Returns true if the worker at position `i` may get its new share now.
  // `present` are the present shares, of which `target` differs at `i`.
  static bool MayChange(const Lineup& present,
                        const std::vector<StageShare>& target, size_t i);
  CoordinatorOrder StageOrder(const StageShare& share);
  // Returns the paces of the complete replicas.
  StepCosts CostsOf(const Lineup& lineup, absl::Time now) const;
  // Returns the Deal of every synced worker with stages.
  std::map<int64_t, Deal> DealsFor(const Lineup& lineup, int64_t pieces,
                                   absl::Time now) const;

  const StageAssignment assignment_;
  // What ready workers have said about their segments and memory, by
  // incarnation, and the same of the job's Ready. Empty after ChooseStages.
  std::map<int64_t, Ready> reports_;
  Ready job_report_;
  std::optional<StageMap> segments_;  // Absent before Begin.
  std::optional<StageMap> map_;       // Absent before ChooseStages.
  // The order in which ChooseStages has counted on the workers, by incarnation.
  std::map<int64_t, size_t> places_;
  std::map<int64_t, Worker> workers_;  // By incarnation.
  int64_t stage_generation_ = 0;
  // True if workers need not initialize weights, because the servers have them.
  bool initialized_ = false;
  int64_t next_step_ = 0;  // The oldest step that is not complete.
  // True if the workers were not told that the first step of their Deals is
  // complete.
  bool announces_step_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_PIPELINE_STEPS_H_
