// The exchange with parameter servers: one gRPC stream to each.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_EXCHANGE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/parameter_table.h"
#include "worker/exchange/exchange.h"
#include "worker/work_state.h"

namespace tributary {

class ParameterServerExchange final : public Exchange {
 public:
  struct Options {
    // host:port by shard.
    std::vector<std::string> servers;
    int64_t incarnation = 0;
    absl::Duration connect_timeout = absl::Seconds(60);
  };
  // Connects to every server and says Hello. `layout` and `state` must outlive
  // the exchange. Unavailable, naming shard and address, if a server cannot be
  // reached in time.
  static absl::StatusOr<std::unique_ptr<ParameterServerExchange>> Connect(
      const Options& options, const ArenaLayout* layout, WorkState* state);
  // Cuts connections that Finish has not ended.
  ~ParameterServerExchange() override;

  void PushInitial(Buffer arena) override;
  void Push(int64_t step, NodeChunk sum) override;
  void Finish() override;
  int64_t bytes_sent() const override { return bytes_sent_; }
  int64_t bytes_received() const override { return bytes_received_; }

 private:
  class Stream;

  ParameterServerExchange(const ArenaLayout* layout, WorkState* state);
  // Lets streams whose chunk had no place try again.
  void RetryParked() ABSL_LOCKS_EXCLUDED(parked_mu_);

  const ArenaLayout* const layout_;
  WorkState* const state_;
  std::vector<std::unique_ptr<Stream>> streams_;  // By shard.
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<int64_t> bytes_received_{0};
  std::atomic<bool> finishing_{false};

  // Held around BeginWrite, so that a stream is on the list before anybody can
  // call RetryParked for it. Before the state's own lock.
  absl::Mutex parked_mu_;
  std::vector<Stream*> parked_ ABSL_GUARDED_BY(parked_mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_EXCHANGE_H_
