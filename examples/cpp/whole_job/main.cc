// Trains a job within this program: two workers fit a line to points, with
// gradients that this program computes.
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tributary/job.h"
#include "tributary/worker.h"

namespace {

constexpr char kJob[] = R"(
  model { external { name: "line" } }
  data { external { train_samples: 1024 unit: "points" } }
  batch { global: 64 }
  optimizer { sgd { learning_rate: 0.5 } }
  evaluation { disabled: true }
  epochs: 20
)";

// The points are on y = 3 x - 1, with x from 0 to 1.
void FitPoints(tributary::MicroBatch* micro_batch) {
  const float slope = micro_batch->weights(0)[0];
  const float offset = micro_batch->weights(1)[0];
  float slope_gradient = 0;
  float offset_gradient = 0;
  double loss = 0;
  for (const int64_t i : micro_batch->indexes()) {
    const float x = static_cast<float>(i) / 1024;
    const float error = slope * x + offset - (3 * x - 1);
    slope_gradient += error * x;
    offset_gradient += error;
    loss += error * error / 2;
  }
  micro_batch->Add(1, {offset_gradient});
  micro_batch->Add(0, {slope_gradient});
  micro_batch->Finish(loss);
}

absl::Status FitLine(tributary::Worker* worker) {
  const absl::Status declared =
      worker->Declare({{"slope", {1}}, {"offset", {1}}});
  if (!declared.ok()) return declared;
  while (tributary::Step* step = worker->NextStep()) {
    for (tributary::MicroBatch& micro_batch : step->micro_batches()) {
      FitPoints(&micro_batch);
    }
  }
  return worker->status();
}

}  // namespace

int main() {
  tributary::Job::Options options;
  options.text = kJob;
  options.workers = 2;
  options.worker = &FitLine;
  options.on_step = [](const tributary::Job::StepMetrics& metrics) {
    if (metrics.step % 80 != 0) return;
    std::printf("step %d: loss %.6f\n", static_cast<int>(metrics.step),
                metrics.loss);
  };
  tributary::Job job(options);
  const absl::StatusOr<tributary::Job::Result> result = job.Run();
  if (!result.ok()) {
    const std::string message(result.status().message());
    std::fprintf(stderr, "error: %s\n", message.c_str());
    return 1;
  }
  std::printf("y = %.3f x + %.3f\n", result->weights.at("slope").values[0],
              result->weights.at("offset").values[0]);
  return 0;
}
