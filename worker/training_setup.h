// The parts of a job that a worker computes with: data, and a model for every
// computing thread.
#ifndef TRIBUTARY_WORKER_TRAINING_SETUP_H_
#define TRIBUTARY_WORKER_TRAINING_SETUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameter_table.h"
#include "common/rounds.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/data/data_set.h"
#include "worker/data/sampler.h"
#include "worker/device/device.h"
#include "worker/models/model.h"
#include "worker/trajectory.h"

namespace tributary {

// A lane is a computing thread with a device and a model of its own. A leaf is
// computed by one lane from start to end, so the number of lanes never changes
// the result.
//
// Immutable but for the models and trajectories, each of which belongs to its
// lane.
class TrainingSetup {
 public:
  // Opens the job's data and plans the model once for each lane, or for as many
  // as there is memory for. `job` is resolved. Errors are those of OpenDataSet
  // and CreateModel: they say what to change; ResourceExhausted when there is
  // no memory for one leaf.
  static absl::StatusOr<std::unique_ptr<TrainingSetup>> Create(
      const JobSpec& job, int lanes);

  const JobSpec& job() const { return job_; }
  const DataSet& data() const { return *data_; }
  const Sampler& sampler() const { return *sampler_; }
  const ArenaLayout& layout() const { return *layout_; }
  const ParameterTable& table() const { return table_; }
  const DataFacts& facts() const { return facts_; }
  const Rounds& rounds() const { return *rounds_; }
  int lanes() const { return static_cast<int>(models_.size()); }
  // Gives up lanes until there are so many, at least one, and frees their
  // memory. Nobody may be computing.
  void KeepLanes(int count);
  // Of one lane, for the model and a gradient.
  int64_t lane_bytes() const {
    return models_[0]->memory_bytes() + layout_->arena_elements() * 4;
  }
  Model* model(int lane) const { return models_[lane].get(); }
  // Null unless the job's consistency is local_steps.
  Trajectory* trajectory(int lane) const {
    return trajectories_.empty() ? nullptr : trajectories_[lane].get();
  }
  // Samples in one piece of the evaluation; the last piece may be shorter.
  int64_t piece_samples() const { return piece_samples_; }

 private:
  TrainingSetup() = default;

  // From the first lane's model.
  absl::Status LayOut();

  JobSpec job_;
  std::unique_ptr<DataSet> data_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Model>> models_;
  std::unique_ptr<ArenaLayout> layout_;
  ParameterTable table_;
  DataFacts facts_;
  std::unique_ptr<Rounds> rounds_;
  std::vector<std::unique_ptr<Trajectory>> trajectories_;
  int64_t piece_samples_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_SETUP_H_
