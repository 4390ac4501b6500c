#include "deploy/launch/in_process/server_port.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/stream/local_call.h"
#include "server/service/membership_session.h"

namespace tributary {
namespace {

absl::Status NotServed() {
  return absl::UnavailableError("the server has shut down");
}

}  // namespace

ServerPort::ServerPort(int shard, Coordinator* coordinator, RunRecords* records,
                       ReplicaStore* replicas, Executor* executor, Logger* log)
    : name_(absl::StrCat("server-", shard)),
      coordinator_(coordinator),
      records_(records),
      weights_(shard, log),
      replicas_(shard, replicas),
      calls_(std::make_shared<LocalCalls>(executor)) {}

void ServerPort::ShutDown(absl::Duration timeout) {
  calls_->ShutDown(timeout);
  absl::MutexLock lock(&asking_mu_);
  shut_down_ = true;
}

template <typename In, typename Out, typename Sessions, typename Session>
std::unique_ptr<ClientStream<Out, In>> ServerPort::Open(
    Sessions* sessions,
    std::unique_ptr<Session> (Sessions::*make)(ServerStream<Out>*)) {
  return LocalCall<In, Out>::Open(calls_, [port = shared_from_this(), sessions,
                                           make](ServerStream<Out>* stream) {
    return (sessions->*make)(stream);
  });
}

std::unique_ptr<MembershipStream> ServerPort::Membership() {
  return LocalCall<WorkerReport, CoordinatorOrder>::Open(
      calls_,
      [port = shared_from_this()](ServerStream<CoordinatorOrder>* stream) {
        return std::make_unique<MembershipSession>(port->coordinator_, stream);
      });
}

std::unique_ptr<EnlistmentStream> ServerPort::Enlistment() {
  return LocalCall<ServerReport, ServerOrder>::Open(
      calls_, [port = shared_from_this()](ServerStream<ServerOrder>* stream) {
        return std::make_unique<EnlistmentSession>(port->coordinator_, stream);
      });
}

std::unique_ptr<ExchangeStream> ServerPort::Exchange() {
  return Open<WorkerMessage, ServerMessage>(&weights_,
                                            &WeightsSessions::Exchange);
}

std::unique_ptr<WeightsReadStream> ServerPort::ReadWeights() {
  return Open<ReadWeightsRequest, ServerMessage>(&weights_,
                                                 &WeightsSessions::ReadWeights);
}

std::unique_ptr<ReplicationClientStream> ServerPort::Replicate() {
  return Open<JournalMessage, JournalAnswer>(&replicas_,
                                             &ReplicaSessions::Replicate);
}

std::unique_ptr<ReplicationClientStream> ServerPort::SaveState() {
  return Open<JournalMessage, JournalAnswer>(&replicas_,
                                             &ReplicaSessions::SaveState);
}

absl::Status ServerPort::ReadJournal(const ReadJournalRequest& request,
                                     const ReplicaTarget& to) {
  return ReceiveReplica(Open<ReadJournalRequest, JournalMessage>(
                            &replicas_, &ReplicaSessions::ReadJournal),
                        name_, request, to);
}

absl::Status ServerPort::ReadState(const ReadJournalRequest& request,
                                   Snapshot* snapshot) {
  return ReceiveReplica(Open<ReadJournalRequest, JournalMessage>(
                            &replicas_, &ReplicaSessions::ReadState),
                        name_, request, {snapshot, {}});
}

absl::StatusOr<StatusReply> ServerPort::GetStatus() {
  absl::MutexLock lock(&asking_mu_);
  if (shut_down_ || coordinator_ == nullptr) return NotServed();
  StatusReply status = coordinator_->GetStatus();
  records_->FillStatus(&status);
  return status;
}

absl::Status ServerPort::Report(const EventReport& report) {
  absl::MutexLock lock(&asking_mu_);
  if (shut_down_ || coordinator_ == nullptr) return NotServed();
  return records_->Report(report, coordinator_->GetStatus().step());
}

}  // namespace tributary
