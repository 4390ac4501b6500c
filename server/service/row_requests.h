// A server's end of the exchange of rows with one worker.
#ifndef TRIBUTARY_SERVER_SERVICE_ROW_REQUESTS_H_
#define TRIBUTARY_SERVER_SERVICE_ROW_REQUESTS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/sparse/row_gradients.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_payload.h"
#include "common/stream/row_messages.h"
#include "common/update/tables/table_engine.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Answers a worker's requests for rows, and puts its contributions together.
// OnRequest and OnContribution must not be called at the same time.
class RowRequests {
 public:
  // Sends a message with rows of `version`. Called on any thread.
  using Send = std::function<void(int64_t version, const Rows& rows,
                                  OutgoingPayload payload)>;
  // `tables` must outlive the object, and the answers: Close must be called
  // before what `send` uses is destroyed.
  RowRequests(TableEngine* tables, Encoding encoding, Send send);

  // Answers the request now or when the version exists. Returns InvalidArgument
  // for a request that no correct worker sends, and ResourceExhausted if too
  // many requests have no answer.
  absl::Status OnRequest(const RowsRequest& request,
                         const ReceivedPayload& payload);
  // Returns the gradients if `part` completes a contribution, and null if it
  // does not. Returns InvalidArgument for a part that no correct worker sends.
  absl::StatusOr<std::shared_ptr<const GradientSource>> OnContribution(
      const RowContribution& part, const ReceivedPayload& payload);
  // After this call, nothing is sent.
  void Close();

 private:
  // Outlives this object while requests have no answer.
  struct Answers {
    absl::Mutex mu;
    Send send ABSL_GUARDED_BY(mu);  // Null after Close.
    int waiting ABSL_GUARDED_BY(mu) = 0;
  };

  TableEngine* const tables_;
  const RowDims dims_;
  const Encoding encoding_;
  ContributionParts parts_;
  const std::shared_ptr<Answers> answers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_ROW_REQUESTS_H_
