#include "tests/simulation/processes/weights_streams.h"

#include "absl/strings/str_cat.h"
#include "server/service/weights_read_session.h"

namespace tributary::simulation {

void WeightsStreams::Accept(const std::shared_ptr<Link>& link) {
  calls_.Accept<WorkerMessage, ServerMessage>(
      link,
      [this](ServerStream<ServerMessage>* stream) {
        return std::make_unique<ExchangeSession>(served_, &counters_,
                                                 &arrivals_, stream);
      },
      // Simulated workers send correct messages, so refusing one is a
      // violation.
      [this](const absl::Status& status) {
        if (absl::IsAborted(status) || absl::IsUnavailable(status)) return;
        world_->Violate(absl::StrCat("server ", served_.shard,
                                     " refuses a worker: ", status.ToString()));
      });
}

void WeightsStreams::AcceptRead(const std::shared_ptr<Link>& link) {
  calls_.Accept<ReadWeightsRequest, ServerMessage>(
      link,
      [this](ServerStream<ServerMessage>* stream) {
        return std::make_unique<WeightsReadSession>(served_, &counters_,
                                                    stream);
      },
      [](const absl::Status&) {});
}

}  // namespace tributary::simulation
