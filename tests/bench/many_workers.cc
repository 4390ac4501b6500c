// Many workers in one process, to measure jobs with more workers than a machine
// can run as processes. Each is a whole worker with connections of its own, but
// with a synthetic gradient. many_workers.py starts the servers and this
// program, and measures:
//   bazel build -c opt //tests/bench:many_workers //deploy:tributary
//   tests/bench/many_workers.py
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/shutdown.h"
#include "common/os/log.h"
#include "common/transport/connection_acceptor.h"
#include "worker/data/data_set.h"
#include "worker/process/worker_process.h"

namespace tributary {
namespace {

// A data set whose training samples take a fixed time to read, in place of the
// time that a model computes. Otherwise the steps of small jobs would be so
// short that they measure the exchange alone.
class SlowDataSet final : public DataSet {
 public:
  SlowDataSet(std::unique_ptr<DataSet> data, absl::Duration pause)
      : data_(std::move(data)), pause_(pause) {}

  const DataInfo& info() const override { return data_->info(); }
  int64_t train_samples() const override { return data_->train_samples(); }
  int64_t evaluation_samples() const override {
    return data_->evaluation_samples();
  }
  uint64_t fingerprint() const override { return data_->fingerprint(); }
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override {
    absl::SleepFor(pause_);
    data_->ReadTrain(epoch, indexes, batch);
  }
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override {
    data_->ReadEvaluation(begin, end, batch);
  }

 private:
  const std::unique_ptr<DataSet> data_;
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
  options.sources.open_data =
      [open = options.sources.open_data,
       pause](const JobSpec& job) -> absl::StatusOr<std::unique_ptr<DataSet>> {
    absl::StatusOr<std::unique_ptr<DataSet>> data = open(job);
    if (!data.ok()) return data.status();
    return std::make_unique<SlowDataSet>(*std::move(data), pause);
  };
  Shutdown shutdown;
  std::vector<std::thread> threads;
  std::vector<absl::Status> results(count);
  threads.reserve(count);
  for (int i = 0; i < count; ++i) {
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
  const int workers = std::atoi(argv[2]);
  // Each worker has a connection to each server, and one more to server 0.
  tributary::RaiseDescriptorLimit(workers * (std::atoi(argv[3]) + 2));
  const int failed = tributary::RunWorkers(
      argv[1], workers, absl::Milliseconds(std::atoi(argv[4])));
  return failed == 0 ? 0 : 1;
}
