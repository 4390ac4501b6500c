// The parts of a job that a worker computes with: data, and a model for every
// computing thread.
#ifndef TRIBUTARY_WORKER_TRAINING_TRAINING_SETUP_H_
#define TRIBUTARY_WORKER_TRAINING_TRAINING_SETUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/exchange_traits.h"
#include "common/job/rounds.h"
#include "common/parameters/parameter_table.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/data/data_set.h"
#include "worker/data/sampler.h"
#include "worker/device/device.h"
#include "worker/models/model.h"
#include "worker/nn/weight_copies.h"
#include "worker/training/device_arenas.h"
#include "worker/training/device_sums.h"
#include "worker/training/local_sgd.h"
#include "worker/training/micro_batch_memory.h"

namespace tributary {

// Makes a device for one lane.
using DeviceMaker =
    std::function<absl::StatusOr<std::unique_ptr<Device>>(Precision)>;

// The CPU's, which always works.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(Precision precision);

// A lane is a computing thread with a device and a model of its own. A leaf is
// computed by one lane from start to end, so the number of lanes never changes
// the result.
//
// Immutable but for what belongs to a lane and the weight copies that lanes
// share.
class TrainingSetup {
 public:
  // Opens the job's data and plans the model once for each lane, or for as many
  // as there is memory for. `job` is resolved; its micro-batches have been
  // found. Errors are those of OpenDataSet, CreateModel and `make_device`: they
  // say what to change; ResourceExhausted when there is no memory for one leaf.
  static absl::StatusOr<std::unique_ptr<TrainingSetup>> Create(
      const JobSpec& job, int threads,
      const DeviceMaker& make_device = &MakeCpuDevice);
  ~TrainingSetup();

  const JobSpec& job() const { return job_; }
  const ExchangeTraits& traits() const { return traits_; }
  const DataSet& data() const { return *data_; }
  const Sampler& sampler() const { return *sampler_; }
  const ArenaLayout& layout() const { return *layout_; }
  const ParameterTable& table() const { return table_; }
  const DataFacts& facts() const { return facts_; }
  const Rounds& rounds() const { return *rounds_; }
  int threads() const { return static_cast<int>(threads_.size()); }
  // The weights that models are given from now on are not those before: to be
  // called between two versions, while nobody is computing.
  void RenewWeightCopies() const;
  // Gives up lanes until there are so many, at least one, and frees their
  // memory. Nobody may be computing.
  void KeepThreads(int count);
  // Of one lane, for all that computing a leaf takes.
  int64_t thread_bytes() const { return micro_batch_memory_.total(); }
  Device* device(int thread) const { return threads_[thread].device.get(); }
  Model* model(int thread) const { return threads_[thread].model.get(); }
  // Null where the device works in the host's memory: then models compute in
  // the host's arenas.
  DeviceArenas* arenas(int thread) const {
    return threads_[thread].arenas.get();
  }
  // Null where arenas() is, and with local steps.
  DeviceSums* sums(int thread) const { return threads_[thread].sums.get(); }
  // Null unless the job's consistency is local_steps.
  LocalSgd* local_sgd(int thread) const {
    return threads_[thread].local_sgd.get();
  }
  // Samples in one piece of the evaluation; the last piece may be shorter.
  int64_t piece_samples() const { return piece_samples_; }

 private:
  // Freed from the last member to the first, and from the last lane to the
  // first.
  struct ComputeThread {
    std::unique_ptr<Device> device;
    std::unique_ptr<DeviceArenas> arenas;
    std::unique_ptr<DeviceSums> sums;
    // For models of all lanes that work in the host's memory, of the first one;
    // null elsewhere, and with local steps, in which each has its own weights.
    std::unique_ptr<WeightCopies> weight_copies;
    std::unique_ptr<Model> model;
    std::unique_ptr<LocalSgd> local_sgd;
  };

  TrainingSetup() = default;
  void PopThreads(size_t kept);

  // Opens the data and says what is known of them.
  absl::Status Open();
  MicroBatchMemoryInputs MemoryInputs() const;
  // ResourceExhausted, with an account, when there is not.
  absl::Status CheckMemory(int thread, const Device& device,
                           std::optional<int64_t> host_bytes);
  absl::Status AddThread(const DeviceMaker& make_device,
                         std::optional<int64_t> host_bytes);
  absl::Status LayOut(const Model& model);

  JobSpec job_;
  ExchangeTraits traits_;
  std::unique_ptr<DataSet> data_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<ArenaLayout> layout_;
  ParameterTable table_;
  DataFacts facts_;
  std::unique_ptr<Rounds> rounds_;
  int64_t piece_samples_ = 0;
  int64_t max_samples_ = 0;
  MicroBatchMemory micro_batch_memory_;
  std::vector<ComputeThread> threads_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_TRAINING_SETUP_H_
