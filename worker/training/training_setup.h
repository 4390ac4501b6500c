// Resources of a job on a worker: the data, and a device and a model for every
// compute thread.
#ifndef TRIBUTARY_WORKER_TRAINING_TRAINING_SETUP_H_
#define TRIBUTARY_WORKER_TRAINING_TRAINING_SETUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/job/exchange_traits.h"
#include "common/job/rounds.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/data/data_set.h"
#include "worker/data/sampler.h"
#include "worker/device/device.h"
#include "worker/exchange/device_arenas.h"
#include "worker/exchange/device_sums.h"
#include "worker/models/model.h"
#include "worker/nn/weight_copies.h"
#include "worker/sparse/announced_rows.h"
#include "worker/training/local_sgd.h"
#include "worker/training/micro_batch_memory.h"
#include "worker/training/threads/compute_thread_items.h"
#include "worker/training/training_sources.h"

namespace tributary {

// Creates a device for one compute thread.
using DeviceMaker =
    std::function<absl::StatusOr<std::unique_ptr<Device>>(Precision)>;

// Creates a CPU device. Never fails.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(Precision precision);

// Owns the data and, for each compute thread, a device and a model. One thread
// computes a micro-batch from start to end, so the number of threads never
// changes the result.
//
// Immutable, except for the resources of compute threads and the weight copies
// that they share.
class TrainingSetup {
 public:
  // Opens the job's data and plans the model for each compute thread, or for as
  // many threads as memory permits. If the models queue micro-batches for a
  // thread of the user's program (see TrainingSources::queues_micro_batches)
  // and the job's consistency mode is local_steps or the device has its own
  // memory, uses one thread: the program then computes all local steps of a
  // micro-batch before those of the next one, and gradients are added in device
  // memory. `job` must be resolved, including batch.micro_batches. Returns the
  // errors of `sources` and `make_device`, which say what to change,
  // ResourceExhausted if memory does not suffice for one micro-batch, and
  // InvalidArgument if the job compresses gradients of a model with running
  // statistics.
  static absl::StatusOr<std::unique_ptr<TrainingSetup>> Create(
      const JobSpec& job, int threads,
      const DeviceMaker& make_device = &MakeCpuDevice,
      const TrainingSources& sources = {});
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
  // Returns the graph of the job's model. Returns FailedPrecondition if the
  // model has none, because the worker's program computes it.
  absl::StatusOr<Graph> BuildGraph() const;
  // Returns the number of samples of the largest micro-batch or piece of the
  // evaluation data.
  int64_t max_samples() const { return max_samples_; }
  // Invalidates the WeightCopies of all threads (bfloat16 copies of the weights
  // for matrix products). Each copy is renewed when it is next used. Must be
  // called whenever the weights have changed, while no thread computes.
  void RenewWeightCopies() const;
  // Releases compute threads, and their memory, until `count` (at least one)
  // remain. No thread may be computing.
  void KeepThreads(int count);
  // Returns the memory that one compute thread needs. Nothing if the worker
  // computes parts of the model.
  const MicroBatchMemory& thread_memory() const { return micro_batch_memory_; }
  // Returns the host memory that the data take, in bytes.
  int64_t data_bytes() const { return data_bytes_; }
  Device* device(int thread) const { return threads_[thread].device.get(); }
  Model* model(int thread) const { return threads_[thread].model.get(); }
  // Returns the thread's buffers for weights and gradients in device memory.
  // Returns null if the device works in host memory; models then compute in
  // host arenas.
  DeviceArenas* arenas(int thread) const {
    return threads_[thread].arenas.get();
  }
  // Returns the object that sums the thread's gradients in device memory, or
  // null if arenas() is null or the job's consistency mode is local_steps.
  DeviceSums* sums(int thread) const { return threads_[thread].sums.get(); }
  // Returns the object that takes the thread's local steps, or null unless the
  // job's consistency mode is local_steps and the worker computes whole models.
  LocalSgd* local_sgd(int thread) const {
    return threads_[thread].local_sgd.get();
  }
  // Returns TrainingSources::queues_micro_batches, or false if the job's
  // consistency mode is local_steps or the device has its own memory.
  bool queues_micro_batches() const { return queues_micro_batches_; }
  // Returns TrainingSources::pin or, if that is null and the device has its own
  // memory, a function that pins host arenas for the device. May return null.
  // This object must outlive the function's calls.
  PinMemory pin() const;
  // Returns TrainingSources::on_last_weights.
  const std::function<void(absl::Span<const float>)>& on_last_weights() const {
    return on_last_weights_;
  }
  // Returns TrainingSources::announced_rows.
  AnnouncedRows* announced_rows() const { return announced_rows_.get(); }
  // Writes version 0 of the weights to `arena`, a host arena with the layout
  // layout(): the model's initial values, or those of the files that the job
  // names. Returns the errors of LoadInitialWeights. May block on the disk.
  // Must not be called while a thread computes a micro-batch or an evaluation.
  absl::Status MakeInitialWeights(float* arena) const;
  // Like MakeInitialWeights, for the elements [begin, end) of the arena.
  // Touches no more memory than necessary, unless the job names files.
  absl::Status MakeInitialElements(int64_t begin, int64_t end,
                                   float* arena) const;
  // Distributes the items of a task (micro-batches, or pieces of the evaluation
  // data) over the compute threads.
  ComputeThreadItems Distribute(std::vector<int64_t> items) const;
  // Returns the number of samples in one piece of the evaluation data. The last
  // piece may be shorter.
  int64_t piece_samples() const { return piece_samples_; }

 private:
  // The resources of one compute thread. The members are destroyed in reverse
  // order of their declaration, and the threads in reverse order of their
  // numbers.
  struct ComputeThread {
    std::unique_ptr<Device> device;
    std::unique_ptr<DeviceArenas> arenas;
    std::unique_ptr<DeviceSums> sums;
    // The bfloat16 copies of the weights for matrix products. If models work in
    // host memory, all threads use the copies of the first thread, and this
    // field is null in the other threads. Null with local steps, because each
    // model then has weights of its own.
    std::unique_ptr<WeightCopies> weight_copies;
    std::unique_ptr<Model> model;
    std::unique_ptr<LocalSgd> local_sgd;
  };

  TrainingSetup() = default;
  void PopThreads(size_t kept);

  // Opens the data and sets the fields that depend on the data: facts_,
  // sampler_, rounds_, piece_samples_ and max_samples_. Returns the errors of
  // TrainingSources::open_data.
  absl::Status Open(const TrainingSources& sources);
  MicroBatchMemoryInputs MemoryInputs() const;
  // Returns ResourceExhausted, with an explanation, if memory does not suffice
  // for compute thread number `thread`. `host_bytes` is the host memory that
  // was free before the first thread was added, or nullopt if unknown.
  absl::Status CheckMemory(int thread, const Device& device,
                           std::optional<int64_t> host_bytes);
  absl::Status AddThread(const DeviceMaker& make_device,
                         const TrainingSources& sources,
                         std::optional<int64_t> host_bytes);
  // Sets table_ and layout_ (the model's parameters and their places in an
  // arena), and applies the parameter groups of the job's optimizer.
  absl::Status LayOut(const Model& model);
  absl::Status ApplyParameterGroups();

  JobSpec job_;
  ExchangeTraits traits_;
  ModelPlanner plan_model_;
  std::function<absl::StatusOr<Graph>(const ModelSpec&, const DataInfo&)>
      build_graph_;
  PinMemory pin_for_models_;
  std::function<void(absl::Span<const float>)> on_last_weights_;
  std::shared_ptr<AnnouncedRows> announced_rows_;
  bool queues_micro_batches_ = false;
  std::unique_ptr<DataSet> data_;
  int64_t data_bytes_ = 0;
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
