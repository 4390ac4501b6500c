// A program that uses tributary/worker.h with a built-in network as its engine.
// Its results must therefore equal those of built-in workers, bit for bit.
#ifndef TRIBUTARY_TESTS_LIBRARY_MODEL_ENGINE_H_
#define TRIBUTARY_TESTS_LIBRARY_MODEL_ENGINE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "tributary/worker.h"
#include "worker/data/data_set.h"
#include "worker/device/device.h"
#include "worker/models/model.h"

namespace tributary {

// Computes the micro-batches and evaluation pieces of a job with a built-in
// network. Not thread-safe: each worker needs an engine of its own.
class ModelEngine {
 public:
  // Opens the job's data and builds its model. The job need not be resolved.
  explicit ModelEngine(const JobSpec& job);

  // Returns the declarations of the network's parameters.
  std::vector<ParameterDeclaration> Declarations() const;
  // Computes all steps of `worker` until the job ends. Returns the worker's
  // status.
  absl::Status Run(Worker* worker);

  // Compute one micro-batch or one evaluation piece, and finish it.
  void Train(MicroBatch* micro_batch);
  void Evaluate(EvaluationPiece* piece);

  // Called before each micro-batch. May be null.
  std::function<void(MicroBatch*)> before_micro_batch;
  // Copies weights to the engine. By default, copies them from host memory.
  // `gpu_stream` is MicroBatch::gpu_stream, or null for an evaluation.
  std::function<void(absl::Span<const float> from, void* gpu_stream, float* to)>
      read_weights;
  // Gives a gradient to the micro-batch. By default, calls MicroBatch::Add.
  // `values` keep their values until the next micro-batch.
  std::function<void(MicroBatch*, int parameter,
                     absl::Span<const float> values)>
      give_gradient;

 private:
  // Copies all weights to weights_.
  template <typename Item>
  void ReadWeights(Item* item, void* gpu_stream);

  const JobSpec job_;  // Resolved.
  std::unique_ptr<DataSet> data_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ArenaLayout> layout_;
  std::vector<float> weights_;
  std::vector<float> gradients_;
};

// Connects a worker to the coordinator, declares the parameters of the engine,
// and runs the engine. Returns the first error, or the status of the worker.
absl::Status RunEngine(const std::string& coordinator, ModelEngine* engine);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_LIBRARY_MODEL_ENGINE_H_
