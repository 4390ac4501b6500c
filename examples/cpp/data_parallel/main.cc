// Trains a network with a loop of its own on all devices that the arguments
// name, by default on two CPU threads:
//
//   data_parallel cuda:0 cuda:1
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tributary/data_parallel.h"
#include "tributary/nn.h"

namespace {

constexpr int kSteps = 400;
constexpr int kMicroBatches = 8;
constexpr int64_t kSamples = 256;
constexpr float kLearningRate = 0.5;

// Two numbers are in one of two classes.
tributary::Graph MakeGraph() {
  using tributary::Linear;
  tributary::Graph graph(/*input_elements=*/2);
  tributary::ValueId value =
      graph.Add("hidden", std::make_unique<Linear>(Linear::FanInOptions(2, 16)),
                {graph.input()});
  value = graph.Add("relu", std::make_unique<tributary::Relu>(16), {value});
  value = graph.Add(
      "output", std::make_unique<Linear>(Linear::FanInOptions(16, 2)), {value});
  graph.SetLoss(tributary::LossSpec::SoftmaxCrossEntropy(2), value);
  return graph;
}

// Points, and whether they are within a ring.
struct Points {
  std::vector<float> input;
  std::vector<int32_t> target;
};
Points MakePoints() {
  Points points;
  for (int64_t i = 0; i < kSamples; ++i) {
    const float x = std::sin(static_cast<float>(7 * i));
    const float y = std::cos(static_cast<float>(11 * i));
    points.input.insert(points.input.end(), {x, y});
    points.target.push_back(x * x + y * y < 0.7f ? 1 : 0);
  }
  return points;
}

absl::Status Train(const std::vector<std::string>& devices) {
  absl::StatusOr<tributary::Replicas> replicas = tributary::Replicate(
      &MakeGraph, devices, /*micro_batch_samples=*/kSamples / kMicroBatches);
  if (!replicas.ok()) return replicas.status();
  std::vector<float> weights = replicas->front()->InitialWeights(/*seed=*/1);
  const Points points = MakePoints();
  const tributary::HostBatch batch = {kSamples, points.input.data(),
                                      points.target.data()};
  for (int step = 0; step < kSteps; ++step) {
    const absl::Status set = tributary::SetWeights(weights, &*replicas);
    if (!set.ok()) return set;
    const auto scattered = tributary::Scatter(batch, kMicroBatches, *replicas);
    if (!scattered.ok()) return scattered.status();
    auto outputs =
        tributary::ParallelApply(*scattered, {/*seed=*/1, step}, &*replicas);
    if (!outputs.ok()) return outputs.status();
    const auto gathered = tributary::Gather(*std::move(outputs));
    if (!gathered.ok()) return gathered.status();
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] -= kLearningRate * gathered->gradient[i];
    }
    if ((step + 1) % 100 == 0) {
      std::printf("step %d: loss %.9f, %d of %d correct\n", step + 1,
                  gathered->loss, static_cast<int>(gathered->correct),
                  static_cast<int>(kSamples));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> devices(argv + 1, argv + argc);
  if (devices.empty()) devices = {"cpu", "cpu"};
  const absl::Status status = Train(devices);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
