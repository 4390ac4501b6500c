// A worker without a model and without a coordinator, for tests of exchanges.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_WORKER_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_WORKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "tests/worker/exchange/conformance/exchange_workload.h"
#include "worker/device/device.h"
#include "worker/exchange/exchange.h"
#include "worker/state/synchronous_work.h"

namespace tributary {

// Stores weights as the sink of a synchronous job does, and checks that the
// versions of each chunk arrive in order and that nothing arrives after Close.
// Thread-safe.
class CheckingSink final : public WeightsSink {
 public:
  explicit CheckingSink(const ArenaLayout* layout);

  absl::Status MapChunks(const MappedMemory& memory, int shard,
                         int servers) override;
  absl::Status SetArenas(Buffer even, Buffer odd) override {
    return work_.SetArenas(std::move(even), std::move(odd));
  }
  Arrival BeginWrite(int chunk, int64_t version, float** to) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndWrite(int chunk, int64_t version) override ABSL_LOCKS_EXCLUDED(mu_);
  const float* Weights(int64_t version) const override {
    return work_.Weights(version);
  }
  void SetUnparked(std::function<void()> unparked) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void SetOutcome(const Outcome& /*outcome*/) override {}
  void Fail(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status status() const override ABSL_LOCKS_EXCLUDED(mu_);

  // Blocks until all chunks of `version` have been written. Returns false if
  // the exchange fails first, or makes no progress for a minute, which fails
  // the test.
  bool AwaitVersion(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until the exchange fails. Returns its error.
  absl::Status AwaitFailure() ABSL_LOCKS_EXCLUDED(mu_);
  // Parks `version` and later versions until Unpark is called.
  void Park(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until a chunk has been parked.
  void AwaitParked() ABSL_LOCKS_EXCLUDED(mu_);
  void Unpark() ABSL_LOCKS_EXCLUDED(mu_);
  // Makes every later call by the exchange fail the test.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const int chunks_;
  SynchronousWork work_;

  mutable absl::Mutex mu_;
  std::vector<int64_t> newest_ ABSL_GUARDED_BY(mu_);  // Indexed by chunk.
  // Number of chunks written, by version.
  std::map<int64_t, int> written_ ABSL_GUARDED_BY(mu_);
  int64_t park_from_ ABSL_GUARDED_BY(mu_);
  int parked_ ABSL_GUARDED_BY(mu_) = 0;
  std::function<void()> unparked_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

// The GPU of a worker whose exchange keeps sums and weights in the memory of a
// server's GPU (see Exchange::DeviceWeights).
struct WorkerGpu {
  Device* device = nullptr;  // Null if the worker uses host memory.
  // True if Exchange::DeviceWeights must be in the memory of this GPU.
  bool has_weights = false;
  // Number of gradient arenas that the worker has in the server's GPU. Its
  // further sums are in host memory.
  int arenas = 0;
};

// A worker that pushes the gradients of an ExchangeWorkload through an
// exchange. Not thread-safe, except for Compute and Push.
class ExchangeWorker {
 public:
  // `workload` and `gpu.device` must outlive this object. If there is a device,
  // the test fails if sums or weights pass through host memory instead of the
  // memory of the server's GPU.
  ExchangeWorker(const ExchangeWorkload* workload, LeafRange micro_batches,
                 const WorkerGpu& gpu = WorkerGpu());
  // Destroys the exchange, as a worker does that leaves.
  ~ExchangeWorker() { Leave(); }

  CheckingSink* sink() { return &sink_; }
  Exchange* exchange() { return exchange_.get(); }
  void SetExchange(std::unique_ptr<Exchange> exchange) {
    exchange_ = std::move(exchange);
  }
  // Destroys the exchange, which must not use the sink afterwards.
  void Leave();

  void PushInitial();
  // Returns the nodes whose sums the worker contributes in each step.
  const std::vector<int>& nodes() const { return nodes_; }
  // Computes the gradient sum of a node from version `step` of the weights.
  // Returns an arena of the exchange that contains the sum.
  Buffer Compute(int64_t step, int node) ABSL_LOCKS_EXCLUDED(device_mu_);
  void Push(int64_t step, int node, int chunk, const Buffer& sum);
  // Computes and pushes all nodes of a step, each on a thread of its own.
  void PushStep(int64_t step);
  // Runs steps [begin, end): pushes the gradients of each step, and expects
  // that the resulting version equals the reference.
  void Train(int64_t begin, int64_t end, const ExchangeReference& reference);
  void ExpectVersion(int64_t version, const ExchangeReference& reference);

 private:
  // Returns an arena of Exchange::TakeArena with these values. It may be in the
  // memory of Exchange::device.
  Buffer ArenaOf(const std::vector<float>& values);
  // Returns an arena of Exchange::TakeDeviceArena with these values, or null if
  // all of them are in use.
  Buffer DeviceArenaOf(const std::vector<float>& values)
      ABSL_LOCKS_EXCLUDED(device_mu_);
  // Returns a copy of the weights of a version, which may be in the memory of a
  // device.
  std::vector<float> WeightsOf(int64_t version) ABSL_LOCKS_EXCLUDED(device_mu_);

  const ExchangeWorkload* const workload_;
  const std::vector<int> nodes_;
  const WorkerGpu gpu_;
  absl::Mutex device_mu_;  // Serializes calls of gpu_.device.
  CheckingSink sink_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_WORKER_H_
