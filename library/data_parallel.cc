#include "tributary/data_parallel.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/thread_pool.h"
#include "common/parameters/arena_layout.h"
#include "library/replica_state.h"
#include "proto/parameter_server.pb.h"
#include "worker/device/device.h"
#include "worker/device/factory/device_factory.h"
#include "worker/nn/network.h"

namespace tributary {
namespace {

// The layout has no chunks that matter; see ArenaLayout::Create.
constexpr int64_t kChunkElements = 1 << 18;

absl::StatusOr<ArenaLayout> LayoutOf(const Graph& graph) {
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  ParameterTable table = graph.table();
  table.set_chunk_elements(kChunkElements);
  return ArenaLayout::Create(table);
}

const void* Advance(const void* data, int64_t elements) {
  // Inputs and targets consist of four-byte elements.
  return data == nullptr ? nullptr
                         : static_cast<const char*>(data) + 4 * elements;
}

}  // namespace

absl::StatusOr<Replicas> Replicate(const std::function<Graph()>& make_graph,
                                   const std::vector<std::string>& devices,
                                   int64_t micro_batch_samples) {
  if (devices.empty() || micro_batch_samples < 1) {
    return absl::InvalidArgumentError(
        "Replicate needs at least one device, and micro-batches of at least "
        "one sample");
  }
  Replicas replicas;
  for (const std::string& name : devices) {
    auto state = std::make_unique<ReplicaState>();
    state->name = name;
    Graph graph = make_graph();
    TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout, LayoutOf(graph));
    for (const Parameter& parameter : layout.parameters()) {
      state->parameters.push_back(
          {parameter.name, parameter.shape, parameter.offset, parameter.size});
    }
    state->layout = std::make_unique<ArenaLayout>(std::move(layout));
    state->input_elements = graph.values()[graph.input()];
    state->target_elements = graph.loss().TargetElements();
    state->prediction_elements = graph.values()[graph.loss_input()];
    TRIBUTARY_ASSIGN_OR_RETURN(const DeviceName device, ParseDeviceName(name));
    TRIBUTARY_ASSIGN_OR_RETURN(state->device, CreateDevice(device));
    TRIBUTARY_ASSIGN_OR_RETURN(
        state->network, Network::Create(std::move(graph), micro_batch_samples,
                                        state->device.get()));
    const size_t bytes = static_cast<size_t>(state->arena_bytes());
    TRIBUTARY_ASSIGN_OR_RETURN(state->gradient, state->device->Allocate(bytes));
    if (state->device->has_own_memory()) {
      TRIBUTARY_ASSIGN_OR_RETURN(state->own_weights,
                                 state->device->Allocate(bytes));
    }
    replicas.push_back(std::make_unique<Replica>(std::move(state)));
  }
  return replicas;
}

absl::Status SetWeights(const std::vector<float>& weights, Replicas* replicas) {
  for (const auto& replica : *replicas) {
    ReplicaState& state = replica->state();
    if (static_cast<int64_t>(weights.size()) !=
        state.layout->arena_elements()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there are ", weights.size(), " weights instead of ",
          state.layout->arena_elements(), ", as Replica::elements says"));
    }
    state.weights = weights.data();
    if (!state.device->has_own_memory()) continue;
    state.device->CopyFromHost(state.own_weights.get(), weights.data(),
                               static_cast<size_t>(state.arena_bytes()));
    state.weights = static_cast<const float*>(state.own_weights.get());
  }
  return absl::OkStatus();
}

absl::StatusOr<ScatteredBatch> Scatter(const HostBatch& batch,
                                       int micro_batches,
                                       const Replicas& replicas) {
  if (replicas.empty() || micro_batches < 1 ||
      (micro_batches & (micro_batches - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Scatter needs replicas, and a number of micro-batches "
                     "that is a power of two; it is ",
                     micro_batches));
  }
  const int64_t most = (batch.samples + micro_batches - 1) / micro_batches;
  const ReplicaState& state = replicas.front()->state();
  if (most > state.network->max_samples()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a micro-batch has ", most, " samples, but Replicate was called with ",
        "at most ", state.network->max_samples()));
  }
  ScatteredBatch scattered;
  scattered.micro_batches = micro_batches;
  const int count = static_cast<int>(replicas.size());
  for (int replica = 0; replica < count; ++replica) {
    scattered.parts.emplace_back();
    const int end = (replica + 1) * micro_batches / count;
    for (int i = replica * micro_batches / count; i < end; ++i) {
      const int64_t begin = std::min(batch.samples, i * most);
      HostBatch part;
      part.samples = std::min(batch.samples, begin + most) - begin;
      part.input = Advance(batch.input, begin * state.input_elements);
      part.target = Advance(batch.target, begin * state.target_elements);
      scattered.parts.back().push_back({i, part});
    }
  }
  return scattered;
}

absl::StatusOr<std::vector<ReplicaOutput>> ParallelApply(
    const ScatteredBatch& batch, const ApplyOptions& options,
    Replicas* replicas) {
  if (batch.parts.size() != replicas->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch was scattered to ", batch.parts.size(),
                     " replicas, but there are ", replicas->size()));
  }
  for (const auto& replica : *replicas) {
    if (replica->state().weights == nullptr) {
      return absl::FailedPreconditionError(
          "the replicas have no weights: call SetWeights");
    }
  }
  std::vector<ReplicaOutput> outputs(replicas->size());
  const int threads = static_cast<int>(replicas->size());
  TRIBUTARY_RETURN_IF_ERROR(ParallelFor(
      threads, threads, [&](int /*thread*/, int64_t i) -> absl::Status {
        ReplicaOutput& output = outputs[static_cast<size_t>(i)];
        output.micro_batches = batch.micro_batches;
        for (const NumberedBatch& item : batch.parts[static_cast<size_t>(i)]) {
          TRIBUTARY_RETURN_IF_ERROR(
              (*replicas)[static_cast<size_t>(i)]->state().Compute(
                  item, options, &output));
        }
        return absl::OkStatus();
      }));
  return outputs;
}

absl::StatusOr<GatheredOutput> Gather(std::vector<ReplicaOutput> outputs) {
  GatheredOutput gathered;
  std::vector<ReplicaOutput::NodeGradient> nodes;
  bool has_gradients = false;
  for (ReplicaOutput& output : outputs) {
    for (const double loss : output.losses) gathered.loss += loss;
    gathered.correct += output.correct;
    gathered.sample_count += output.sample_count;
    gathered.predictions.insert(gathered.predictions.end(),
                                output.predictions.begin(),
                                output.predictions.end());
    for (ReplicaOutput::NodeGradient& node : output.gradients) {
      has_gradients = true;
      AddNodeGradient(std::move(node), &nodes);
    }
  }
  if (has_gradients && (nodes.size() != 1 || nodes[0].node != 1)) {
    return absl::InvalidArgumentError(
        "the outputs are not those of one whole batch, in the order of the "
        "replicas");
  }
  const auto count = static_cast<double>(gathered.sample_count);
  if (gathered.sample_count > 0) gathered.loss /= count;
  if (!has_gradients) return gathered;
  gathered.gradient = std::move(nodes[0].sum);
  if (gathered.sample_count == 0) return gathered;
  const float scale = static_cast<float>(1 / count);
  for (float& value : gathered.gradient) value *= scale;
  return gathered;
}

}  // namespace tributary
