#include "server/service/parameter_server_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/base/limits.h"
#include "common/transport/grpc_server_stream.h"
#include "server/service/weights_read_session.h"

namespace tributary {
namespace {

// Largest number of refused workers in the log of one attempt, because such
// workers may be started again and again.
constexpr int kMostRefusals = 100;

}  // namespace

ParameterServerService::ParameterServerService(int shard, Logger* log)
    : log_(log) {
  served_.shard = shard;
  served_.on_refusal = [this](int64_t incarnation, const absl::Status& status) {
    NoteRefusal(incarnation, status);
  };
}

ParameterServerService::~ParameterServerService() = default;

void ParameterServerService::Serve(const ServedWeights& weights) {
  absl::MutexLock lock(&mu_);
  served_.weights = weights;
}

void ParameterServerService::Refuse(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  served_.refusal = status;
}

void ParameterServerService::NoteRefusal(int64_t incarnation,
                                         const absl::Status& status) {
  if (IsTransient(status) || refusals_++ >= kMostRefusals) return;
  log_->WriteLater(LogLevel::kWarning,
                   absl::StrCat("refused the worker of incarnation ",
                                incarnation, ": ", status.message()));
}

Traffic ParameterServerService::traffic() const {
  Traffic traffic;
  traffic.streams = {counters_.bytes_sent, counters_.bytes_received};
  traffic.shared_memory = {counters_.shared_bytes_sent,
                           counters_.shared_bytes_received};
  return traffic;
}

ExchangeSession::Served ParameterServerService::served() const {
  absl::MutexLock lock(&mu_);
  return served_;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ParameterServerService::Exchange(grpc::CallbackServerContext*) {
  auto* stream = new GrpcServerStream<WorkerMessage, ServerMessage>(calls_);
  stream->Start(std::make_unique<ExchangeSession>(served(), &counters_,
                                                  &arrivals_, stream),
                kDefaultLimits.handshake_timeout);
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ParameterServerService::ReadWeights(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  auto* stream =
      new GrpcResponseStream<ReadWeightsRequest, ServerMessage>(calls_);
  stream->Start(
      std::make_unique<WeightsReadSession>(served(), &counters_, stream),
      *request);
  return stream;
}

}  // namespace tributary
