// A job without a model, whose gradients are a pure function of the weights,
// and the weights that an exchange must produce for it.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_WORKLOAD_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/parameters/arena_layout.h"
#include "common/parameters/reduction_tree.h"
#include "proto/job.pb.h"

namespace tributary {

// The job, its model layout, and functions that compute its gradients.
// Immutable after construction and therefore thread-safe.
struct ExchangeWorkload {
  static constexpr int kMicroBatches = 8;
  static constexpr int64_t kSteps = 5;
  // In a job that skips nonfinite steps, element kNonfinite of this step's
  // gradient is infinite. It is in chunk 1.
  static constexpr int64_t kSkippedStep = 2;
  static constexpr int64_t kNonfinite = 1024 + 6;

  // `optimizer` is "sgd", "adamw", "lamb", "clip" (SGD with clipping) or "skip"
  // (SGD that skips nonfinite steps). The fields of `job.exchange` are not set.
  explicit ExchangeWorkload(const std::string& optimizer);

  // Divides the micro-batches evenly among the workers.
  static std::vector<LeafRange> Assign(int workers);
  static int64_t SampleCountOf(int micro_batch) { return 1 + micro_batch % 3; }
  static double LossOf(int64_t step, int micro_batch);
  // Returns the number of samples of a step.
  static int64_t SampleCount();

  // Initialize writes the initial weights, and Gradient writes the gradient of
  // one micro-batch. Both write a whole arena.
  void Initialize(float* weights) const;
  void Gradient(int64_t step, int micro_batch, const float* weights,
                float* gradient) const;
  // Sums the gradients of the micro-batches below `node`, in the order of the
  // reduction tree, and writes the sum to `sum`, a whole arena.
  void NodeSum(int64_t step, int node, const float* weights, float* sum) const;

  JobSpec job;
  // Chunks of one page each, the last one short, with gaps between parameters
  // and parameters of all groups.
  ArenaLayout layout;
};

// The results that one process computes for the workload. An exchange must
// produce the same bits.
struct ExchangeReference {
  explicit ExchangeReference(const ExchangeWorkload& workload);

  std::vector<std::vector<float>> versions;  // All weights, from version 0.
  // Sums of squares of the gradient, by step and chunk.
  std::vector<std::vector<double>> squares;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_WORKLOAD_H_
