// Where a worker's data and models come from.
#ifndef TRIBUTARY_WORKER_TRAINING_TRAINING_SOURCES_H_
#define TRIBUTARY_WORKER_TRAINING_TRAINING_SOURCES_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "proto/job.pb.h"
#include "worker/data/data_registry.h"
#include "worker/data/data_set.h"
#include "worker/models/model.h"
#include "worker/models/model_registry.h"
#include "worker/sparse/announced_rows.h"
#include "worker/training/micro_batch_memory.h"

namespace tributary {

// The status with which a model that queues micro-batches answers
// Model::ForwardBackward if the program ends the job before the micro-batch's
// step; see EndJob in proto/rendezvous.proto.
absl::Status JobEndRequested();
bool IsJobEndRequest(const absl::Status& status);

// Functions that open a job's data, create its models and plan their memory.
// Any thread may call them.
struct TrainingSources {
  // Creates sources of the data sets and models that are part of Tributary.
  TrainingSources() : TrainingSources(ModelRegistry(), DataRegistry()) {}
  // Creates sources of the data sets and models that are part of Tributary, and
  // of those that a program has registered in `models` and `data_sets`.
  TrainingSources(const ModelRegistry& models, const DataRegistry& data_sets);

  std::function<absl::StatusOr<std::unique_ptr<DataSet>>(const JobSpec&)>
      open_data;
  std::function<absl::StatusOr<std::unique_ptr<Model>>(
      const ModelSpec&, const DataInfo&, int64_t max_samples, Device*,
      WeightCopies*, const NetworkPart&)>
      create_model;
  // Builds the graph of the model that `create_model` returns. Null if the
  // model has none, because the worker's program computes it.
  std::function<absl::StatusOr<Graph>(const ModelSpec&, const DataInfo&)>
      build_graph;
  // Plans the memory of the model that `create_model` returns.
  ModelPlanner plan_model;
  // True if the models do not compute micro-batches themselves, but queue them
  // in order for one thread of the user's program, which computes them. These
  // models call StepObserver::DeviceBusy when a micro-batch is in the queue.
  bool queues_micro_batches = false;
  // Called with the arena of the job's last weights, in host memory, when the
  // job is done. May be null.
  std::function<void(absl::Span<const float> weights)> on_last_weights;
  // Set if the models find out the keys of their samples themselves, and look
  // up rows with Batch::lookups: what they have announced.
  std::shared_ptr<AnnouncedRows> announced_rows;
  // Pins the host memory of weights and gradients that are copied to and from a
  // GPU. May be null: the memory is then pinned if the worker's device has its
  // own memory.
  PinMemory pin;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_TRAINING_SOURCES_H_
