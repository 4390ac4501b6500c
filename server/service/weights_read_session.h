// The sending end of a call that reads a server's weights.
#ifndef TRIBUTARY_SERVER_SERVICE_WEIGHTS_READ_SESSION_H_
#define TRIBUTARY_SERVER_SERVICE_WEIGHTS_READ_SESSION_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/stream/message_stream.h"
#include "common/update/update_engine.h"
#include "proto/parameter_server.pb.h"
#include "server/service/exchange_session.h"

namespace tributary {

// Sends all chunks of a server at one version, in the order of their numbers.
// Keeps only one chunk in the stream's queue.
class WeightsReadSession final
    : public ServerSession<ReadWeightsRequest, ServerMessage> {
 public:
  // All objects that the arguments point to must outlive this object.
  WeightsReadSession(const ExchangeSession::Served& served,
                     TransportCounters* counters,
                     ServerStream<ServerMessage>* stream);

  void OnMessage(const ReadWeightsRequest& request,
                 ReceivedPayload payload) override;
  void OnEnd() override {}
  void OnGone() override {}
  void OnSent() override { SendNext(); }

 private:
  // Sends the next chunk, or closes the call after the last one.
  void SendNext();

  UpdateEngine* const engine_;
  const absl::Status refusal_;  // The status of the call if `engine_` is null.
  TransportCounters* const counters_;
  ServerStream<ServerMessage>* const stream_;
  int64_t version_ = 0;
  // Index of the next chunk to send among the server's chunks.
  size_t next_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_WEIGHTS_READ_SESSION_H_
