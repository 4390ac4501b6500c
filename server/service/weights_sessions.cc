#include "server/service/weights_sessions.h"

#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "server/service/weights_read_session.h"

namespace tributary {
namespace {

// Largest number of refused workers in the log of one attempt, because such
// workers may be started again and again.
constexpr int kMostRefusals = 100;

}  // namespace

WeightsSessions::WeightsSessions(int shard, Logger* log) : log_(log) {
  served_.shard = shard;
  served_.on_refusal = [this](int64_t incarnation, const absl::Status& status) {
    NoteRefusal(incarnation, status);
  };
}

void WeightsSessions::Serve(const ServedWeights& weights) {
  absl::MutexLock lock(&mu_);
  served_.weights = weights;
}

void WeightsSessions::Refuse(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  served_.refusal = status;
}

Traffic WeightsSessions::traffic() const {
  Traffic traffic;
  traffic.streams = {counters_.bytes_sent, counters_.bytes_received};
  traffic.shared_memory = {counters_.shared_bytes_sent,
                           counters_.shared_bytes_received};
  return traffic;
}

std::unique_ptr<ServerSession<WorkerMessage, ServerMessage>>
WeightsSessions::Exchange(ServerStream<ServerMessage>* stream) {
  return std::make_unique<ExchangeSession>(served(), &counters_, &arrivals_,
                                           stream);
}

std::unique_ptr<ServerSession<ReadWeightsRequest, ServerMessage>>
WeightsSessions::ReadWeights(ServerStream<ServerMessage>* stream) {
  return std::make_unique<WeightsReadSession>(served(), &counters_, stream);
}

ExchangeSession::Served WeightsSessions::served() const {
  absl::MutexLock lock(&mu_);
  return served_;
}

void WeightsSessions::NoteRefusal(int64_t incarnation,
                                  const absl::Status& status) {
  if (IsTransient(status) || refusals_++ >= kMostRefusals) return;
  log_->WriteLater(LogLevel::kWarning,
                   absl::StrCat("refused the worker of incarnation ",
                                incarnation, ": ", status.message()));
}

}  // namespace tributary
