// Many workers in one process, to measure jobs with more workers than a machine
// can run as processes. Each is a whole worker with connections of its own, but
// with a synthetic gradient. many_workers.py starts the servers and this
// program, and measures:
//   bazel build -c opt //tests/bench:many_workers //deploy:tributary
//   tests/bench/many_workers.py
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/shutdown.h"
#include "common/os/logger.h"
#include "common/transport/connection_acceptor.h"
#include "worker/models/model.h"
#include "worker/process/worker_process.h"

namespace tributary {
namespace {

// Time between the starts of two workers.
constexpr absl::Duration kStartInterval = absl::Milliseconds(20);

// A synthetic model that takes a fixed time for each micro-batch, without CPU
// time, in place of a network. Otherwise the steps of small jobs would be so
// short that they measure the exchange alone.
class SlowModel final : public Model {
 public:
  SlowModel(std::unique_ptr<Model> model, absl::Duration pause)
      : model_(std::move(model)), pause_(pause) {}

  const ParameterTable& table() const override { return model_->table(); }
  int64_t memory_bytes() const override { return model_->memory_bytes(); }
  void Initialize(uint64_t seed, const ArenaLayout& layout,
                  float* weights) const override {
    model_->Initialize(seed, layout, weights);
  }
  absl::StatusOr<LossSums> ForwardBackward(const Batch& batch, uint64_t seed,
                                           int64_t step, int micro_batch,
                                           const WeightsView& weights,
                                           GradientSink* gradients,
                                           StepObserver* observer) override {
    absl::SleepFor(pause_);
    return model_->ForwardBackward(batch, seed, step, micro_batch, weights,
                                   gradients, observer);
  }
  absl::StatusOr<LossSums> Evaluate(const Batch& batch,
                                    const float* weights) override {
    return model_->Evaluate(batch, weights);
  }
  absl::Status NextTokenLogits(absl::Span<const int32_t> tokens,
                               const float* weights,
                               absl::Span<float> logits) override {
    return model_->NextTokenLogits(tokens, weights, logits);
  }

 private:
  const std::unique_ptr<Model> model_;
  const absl::Duration pause_;
};

// Runs `count` workers of the job at `coordinator` until it has ended. Returns
// the number of workers that have failed.
int RunWorkers(const std::string& coordinator, int count,
               absl::Duration pause) {
  LogOptions log;
  log.level = LogLevel::kWarning;
  const std::unique_ptr<Logger> logger = *Logger::Create(log);
  WorkerOptions options;
  options.coordinator = coordinator;
  options.connect_timeout = absl::Minutes(5);
  options.log = logger.get();
  options.sources.create_model =
      [create = options.sources.create_model, pause](
          const ModelSpec& spec, const DataInfo& info, int64_t max_samples,
          Device* device, WeightCopies* copies,
          const NetworkPart& part) -> absl::StatusOr<std::unique_ptr<Model>> {
    absl::StatusOr<std::unique_ptr<Model>> model =
        create(spec, info, max_samples, device, copies, part);
    if (!model.ok()) return model.status();
    return std::make_unique<SlowModel>(*std::move(model), pause);
  };
  Shutdown shutdown;
  std::vector<std::thread> threads;
  std::vector<absl::Status> results(count);
  threads.reserve(count);
  for (int i = 0; i < count; ++i) {
    // The cores of one machine cannot serve all at once.
    absl::SleepFor(kStartInterval);
    threads.emplace_back(
        [&, i] { results[i] = RunWorker(options, &shutdown); });
  }
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    threads[i].join();
    if (results[i].ok()) continue;
    ++failed;
    std::fprintf(stderr, "%s\n", results[i].ToString().c_str());
  }
  return failed;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr,
                 "usage: many_workers HOST:PORT WORKERS SERVERS PAUSE_MS\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  // Debian's Abseil would search for deadlocks at each lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const int workers = std::atoi(argv[2]);
  // Each worker has a connection to each server, and one more to server 0.
  tributary::RaiseDescriptorLimit(workers * (std::atoi(argv[3]) + 2));
  const int failed = tributary::RunWorkers(
      argv[1], workers, absl::Milliseconds(std::atoi(argv[4])));
  return failed == 0 ? 0 : 1;
}
