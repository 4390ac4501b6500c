// Reads rows from servers and sends them gradients of rows.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_SERVER_ROWS_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_SERVER_ROWS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/optimizer/stated_rates.h"
#include "common/sparse/row_gradients.h"
#include "common/stream/message_stream.h"
#include "common/stream/pack_rows.h"
#include "common/stream/received_payload.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "worker/exchange/row_exchange.h"
#include "worker/state/weights_sink.h"

namespace tributary {

// Divides keys among the servers, and puts the rows that the servers send
// together. See RowExchange for thread safety.
class ServerRows final : public RowExchange {
 public:
  // Sends a message to a server, behind everything of steps before `step`.
  using Send = std::function<void(int shard, const WorkerMessage& message,
                                  OutgoingPayload payload, int64_t step)>;
  // `rates` and `sink` must outlive this object.
  ServerRows(const JobSpec& job, int servers, const StatedRates* rates,
             WeightsSink* sink, Send send);

  std::unique_ptr<RequestedRows> Request(int64_t version,
                                         const TableKeys& keys) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void Push(int64_t step, int node, int64_t sample_count,
            const TableSums& sum) override ABSL_LOCKS_EXCLUDED(push_mu_);

  // Takes a message of a server. Returns InvalidArgument if it is not an answer
  // that the server may send.
  absl::Status OnRows(int shard, const Rows& rows,
                      const ReceivedPayload& payload) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Requested;

  // Returns the server that holds the key.
  int ShardOf(int table, uint64_t key) const;
  // Returns the part of a sum that each server holds.
  std::vector<std::vector<OutgoingRows>> Parts(const TableSums& sum) const;

  const SparseSpec sparse_;
  const RowDims dims_;
  const Encoding encoding_;
  const int servers_;
  const StatedRates* const rates_;
  WeightsSink* const sink_;
  const Send send_;

  // Held while a contribution is sent to a server: its parts follow each other,
  // although several threads push.
  absl::Mutex push_mu_;
  // By server: the newest step of which rows were pushed.
  std::vector<int64_t> pushed_ ABSL_GUARDED_BY(push_mu_);

  absl::Mutex mu_;
  int64_t next_request_ ABSL_GUARDED_BY(mu_) = 0;
  // Requests whose rows have not all arrived.
  std::map<int64_t, std::weak_ptr<Requested>> requests_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_SERVER_ROWS_H_
