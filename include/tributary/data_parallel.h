// Data parallelism in one process for a program with a training loop of its
// own: the four steps of torch.nn.parallel, replicate, scatter, parallel_apply
// and gather.
//
//   auto replicas = tributary::Replicate(MakeGraph, {"cuda:0", "cuda:1"}, 16);
//   std::vector<float> weights = replicas->front()->InitialWeights(/*seed=*/1);
//   for (int step = 0; step < steps; ++step) {
//     status = tributary::SetWeights(weights, &*replicas);
//     auto parts = tributary::Scatter(batch, /*micro_batches=*/8, *replicas);
//     auto outputs = tributary::ParallelApply(*parts, {seed, step},
//     &*replicas); auto result = tributary::Gather(*std::move(outputs));
//     ...  // Update the weights with result->gradient.
//   }
//
// The batch consists of micro-batches, whose number does not depend on the
// devices. Each is computed by one device, and gradients are added along a
// binary tree over the micro-batches. Hence the result has the same bits for
// any number of devices of one kind. A tributary::Job (tributary/job.h)
// computes the gradient of a step in the same order.
//
// The caller holds the weights, as the first device does for torch's
// DataParallel. docs/cpp.md explains these functions, and
// examples/cpp/data_parallel is a complete program.
#ifndef TRIBUTARY_DATA_PARALLEL_H_
#define TRIBUTARY_DATA_PARALLEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tributary/replica.h"
#include "worker/nn/graph.h"

namespace tributary {

// Samples in host memory, which the caller owns and keeps until ParallelApply
// has returned.
struct HostBatch {
  int64_t samples = 0;
  // [samples, elements of the network's input], floats or int32 tokens.
  const void* input = nullptr;
  // [samples, LossSpec::TargetElements()], int32 labels or floats. Null to
  // compute predictions only.
  const void* target = nullptr;
};

// Replicas of one network, in the order of the devices.
using Replicas = std::vector<std::unique_ptr<Replica>>;

// Creates a replica on each device: "cpu", "cuda" or "cuda:N"; a name may be
// repeated. `make_graph` returns the same graph in each call. Memory is
// reserved for micro-batches of up to `micro_batch_samples` samples. Returns
// InvalidArgument for a graph that cannot be trained, or without devices, and
// the errors of the devices. torch: replicate(network, devices).
absl::StatusOr<Replicas> Replicate(const std::function<Graph()>& make_graph,
                                   const std::vector<std::string>& devices,
                                   int64_t micro_batch_samples);

// Copies the weights to all replicas; those on the CPU read them where they
// are, so that `weights` must stay unchanged until the last ParallelApply with
// them. Returns InvalidArgument if their number is wrong.
absl::Status SetWeights(const std::vector<float>& weights, Replicas* replicas);

// A micro-batch, and its number in the batch.
struct NumberedBatch {
  int number = 0;
  HostBatch batch;
};
// The parts of one batch.
struct ScatteredBatch {
  int micro_batches = 0;
  // By replica: consecutive micro-batches, the first ones for the first.
  std::vector<std::vector<NumberedBatch>> parts;
};

// Divides a batch into `micro_batches` micro-batches of equal size, of which
// the last ones may be smaller or empty, and assigns them to the replicas.
// Nothing is copied. Returns InvalidArgument unless `micro_batches` is a power
// of two, or if a micro-batch would be too large. torch: scatter(inputs,
// devices).
absl::StatusOr<ScatteredBatch> Scatter(const HostBatch& batch,
                                       int micro_batches,
                                       const Replicas& replicas);

struct ApplyOptions {
  // Selects the random numbers of dropout; see Network::ForwardBackward.
  uint64_t seed = 1;
  int64_t step = 0;
  // If true, computes forward and backward in training mode. Otherwise computes
  // forward in evaluation mode: the loss, or, of a batch without targets, the
  // predictions.
  bool backward = true;
};

// What one replica has computed.
struct ReplicaOutput {
  int micro_batches = 0;  // Of the whole batch.
  int64_t correct = 0;
  int64_t sample_count = 0;  // Samples (tokens) that count.
  // The sum of the losses of each micro-batch's samples (of texts, tokens), by
  // number; Gather adds them in this order.
  std::vector<double> losses;
  // The sum of the gradients of the micro-batches below a node of the tree.
  struct NodeGradient {
    int node = 0;  // See common/parameters/reduction_tree.h.
    std::vector<float> sum;
  };
  std::vector<NodeGradient> gradients;
  // [samples, elements], in the order of the samples.
  std::vector<float> predictions;
};

// Computes all parts at the same time, each replica on a thread of its own.
// Returns the outputs in the order of the replicas. Returns the first error of
// a device. torch: parallel_apply(replicas, inputs).
absl::StatusOr<std::vector<ReplicaOutput>> ParallelApply(
    const ScatteredBatch& batch, const ApplyOptions& options,
    Replicas* replicas);

struct GatheredOutput {
  double loss = 0;  // Mean over samples (tokens).
  int64_t correct = 0;
  int64_t sample_count = 0;
  // The mean gradient; empty unless ApplyOptions::backward. For running
  // statistics, such as those of batch norm, the mean of (value - observation):
  // a job subtracts a tenth of it from the value.
  std::vector<float> gradient;
  std::vector<float> predictions;
};

// Joins the outputs of one batch. Returns InvalidArgument if they are not all
// of its outputs. torch: gather(outputs, target_device), with the host as the
// target.
absl::StatusOr<GatheredOutput> Gather(std::vector<ReplicaOutput> outputs);

}  // namespace tributary

#endif  // TRIBUTARY_DATA_PARALLEL_H_
