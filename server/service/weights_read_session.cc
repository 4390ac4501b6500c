#include "server/service/weights_read_session.h"

#include "absl/status/statusor.h"
#include "common/base/failpoint.h"

namespace tributary {

WeightsReadSession::WeightsReadSession(const ExchangeSession::Served& served,
                                       TransportCounters* counters,
                                       ServerStream<ServerMessage>* stream)
    : engine_(served.weights.engine),
      refusal_(served.refusal),
      counters_(counters),
      stream_(stream) {}

void WeightsReadSession::OnMessage(const ReadWeightsRequest& request,
                                   ReceivedPayload) {
  const absl::Status status = engine_ == nullptr ? refusal_ : Failpoint("J4");
  if (!status.ok()) {
    stream_->Close(status);
    return;
  }
  version_ = request.version();
  SendNext();
}

void WeightsReadSession::SendNext() {
  if (next_ == engine_->chunk_numbers().size()) {
    stream_->Close(absl::OkStatus());
    return;
  }
  const absl::StatusOr<WeightsVersion> weights =
      engine_->Read(engine_->chunk_numbers()[next_], version_);
  if (!weights.ok()) {
    stream_->Close(weights.status());
    return;
  }
  ++next_;
  counters_->bytes_sent += weights->values.bytes;
  // The stream may call OnSent on another thread before Send has returned.
  stream_->Send(WeightsHeader(weights->version, weights->chunk,
                              weights->values.encoding, /*difference=*/false),
                PayloadOf(weights->values), /*priority=*/0);
}

}  // namespace tributary
