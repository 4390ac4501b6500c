// A server's end of the exchange of rows with one worker.
#ifndef TRIBUTARY_SERVER_SERVICE_ROW_SESSION_H_
#define TRIBUTARY_SERVER_SERVICE_ROW_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/sparse/row_gradients.h"
#include "common/stream/message_stream.h"
#include "common/stream/pack_rows.h"
#include "common/stream/received_payload.h"
#include "common/update/tables/table_engine.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Answers a worker's requests for rows, passes its contributions to the tables,
// and tells it when steps are complete. The part of an ExchangeSession that
// concerns tables; its stream calls one method at a time.
class RowSession {
 public:
  struct Options {
    TableEngine* tables = nullptr;
    JobSpec job;
    ServerStream<ServerMessage>* stream = nullptr;
    int64_t id = 0;  // Of the ExchangeSession.
    // Counts the payload bytes that were queued.
    std::atomic<int64_t>* bytes_sent = nullptr;
    // Returns a sum with the fields that identify the worker, or an error if
    // the node is not assigned to it.
    std::function<absl::StatusOr<NodeSum>(int64_t step, int node)> begin_sum;
    // Returns the priority on the stream of rows that are needed together with
    // a version of the weights.
    std::function<int64_t(int64_t version)> priority;
  };
  // What the pointers point to must outlive Close.
  explicit RowSession(Options options);

  // Begins to announce which steps are complete.
  void Begin();
  // Handles a RowsRequest or a RowContribution. Requests are answered when the
  // version exists. Returns InvalidArgument or FailedPrecondition for a message
  // that no correct worker sends, and ResourceExhausted if too many requests
  // have no answer.
  absl::Status Handle(const WorkerMessage& message,
                      const ReceivedPayload& payload);
  // After this call, nothing is sent.
  void Close();

 private:
  // What answers need, which may come after Close.
  struct Answers {
    absl::Mutex mu;
    bool closed ABSL_GUARDED_BY(mu) = false;
    int waiting ABSL_GUARDED_BY(mu) = 0;
  };

  absl::Status OnRequest(const RowsRequest& request,
                         const ReceivedPayload& payload);
  absl::Status OnContribution(const RowContribution& part,
                              const ReceivedPayload& payload);
  // Sends the answer to a request for `keys` keys of each table.
  void Answer(const RowsRequest& request, const std::vector<int64_t>& keys,
              const absl::StatusOr<Buffer>& values) const;

  const Options options_;
  const RowDims dims_;
  const Encoding encoding_;
  ContributionParts parts_;
  const std::shared_ptr<Answers> answers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_ROW_SESSION_H_
