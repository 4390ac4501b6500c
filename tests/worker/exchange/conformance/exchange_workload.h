// A job without a model, whose gradients are a pure function of the weights,
// and the weights that an exchange must produce for it.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_WORKLOAD_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/parameters/parameter_table.h"
#include "common/parameters/reduction_tree.h"
#include "proto/job.pb.h"

namespace tributary {

// Immutable after construction, so thread-safe.
struct ExchangeWorkload {
  static constexpr int kMicroBatches = 8;
  static constexpr int64_t kSteps = 5;
  // In a job that skips nonfinite steps, element kNonfinite of this step's
  // gradient is infinite. It is in chunk 1.
  static constexpr int64_t kSkippedStep = 2;
  static constexpr int64_t kNonfinite = 1024 + 6;

  // `optimizer` is "sgd", "adamw", "clip" (SGD with clipping) or "skip" (SGD
  // that skips nonfinite steps). The job has no exchange.
  explicit ExchangeWorkload(const std::string& optimizer);

  // Divides the micro-batches evenly among the workers.
  static std::vector<LeafRange> Assign(int workers);
  static int64_t SampleCountOf(int micro_batch) { return 1 + micro_batch % 3; }
  static double LossOf(int64_t step, int micro_batch);
  // Sum over all micro-batches.
  static int64_t SampleCount();

  // Write a whole arena.
  void Initialize(float* weights) const;
  void Gradient(int64_t step, int micro_batch, const float* weights,
                float* gradient) const;
  // Sums the gradients of the leaves under `node` in the order of the tree.
  void NodeSum(int64_t step, int node, const float* weights, float* sum) const;

  JobSpec job;
  // Chunks of one page each, the last one short, with gaps between parameters
  // and parameters of all groups.
  ArenaLayout layout;
};

// What one process computes for the workload.
struct ExchangeReference {
  explicit ExchangeReference(const ExchangeWorkload& workload);

  std::vector<std::vector<float>> versions;  // All weights, from version 0.
  // Sums of squares of the gradient, by step and chunk.
  std::vector<std::vector<double>> squares;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_WORKLOAD_H_
