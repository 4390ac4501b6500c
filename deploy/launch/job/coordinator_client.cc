#include "deploy/launch/job/coordinator_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/thread.h"
#include "common/transport/channel.h"
#include "deploy/launch/job/status_poller.h"
#include "proto/rendezvous.grpc.pb.h"

namespace tributary {
namespace {

constexpr absl::Duration kRetryInterval = absl::Milliseconds(500);

uint64_t RandomId() {
  std::random_device device;
  std::uniform_int_distribution<uint64_t> id(1);
  return id(device);
}

// Returns true if the coordinator will answer the same call in the same way.
bool IsFinal(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      return false;
    default:
      return true;
  }
}

// Sends events on a thread of its own.
class EventSender {
 public:
  EventSender(const std::string& address, const Security& security)
      : stub_(Rendezvous::NewStub(CreateChannel(address, security))),
        thread_([this] { SendUntilStopped(); }) {}

  ~EventSender() {
    {
      absl::MutexLock lock(&mu_);
      stopped_ = true;
      if (call_ != nullptr) call_->TryCancel();
    }
    thread_.Join();
  }

  void Report(JobEvent event) ABSL_LOCKS_EXCLUDED(mu_) {
    EventReport report;
    report.set_id(RandomId());
    *report.mutable_event() = std::move(event);
    absl::MutexLock lock(&mu_);
    if (waiting_.size() < CoordinatorClient::kMaxWaiting)
      waiting_.push_back(std::move(report));
  }

 private:
  void SendUntilStopped() ABSL_LOCKS_EXCLUDED(mu_) {
    EventReport report;
    while (TakeFirst(&report)) {
      while (!Send(report)) {
        absl::MutexLock lock(&mu_);
        if (mu_.AwaitWithTimeout(absl::Condition(&stopped_), kRetryInterval)) {
          return;
        }
      }
    }
  }

  // Waits for an event. Returns false once the destructor has begun.
  bool TakeFirst(EventReport* report) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](EventSender* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mu_) {
          return !self->waiting_.empty() || self->stopped_;
        },
        this));
    if (stopped_) return false;
    *report = std::move(waiting_.front());
    waiting_.pop_front();
    return true;
  }

  // Returns true if the report needs no further call.
  bool Send(const EventReport& report) ABSL_LOCKS_EXCLUDED(mu_) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(5));
    {
      absl::MutexLock lock(&mu_);
      if (stopped_) return false;
      call_ = &context;
    }
    EventReceipt receipt;
    const grpc::Status status = stub_->ReportEvent(&context, report, &receipt);
    absl::MutexLock lock(&mu_);
    call_ = nullptr;
    return IsFinal(status);
  }

  const std::unique_ptr<Rendezvous::Stub> stub_;
  absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mu_) = nullptr;  // In flight.
  std::deque<EventReport> waiting_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

class RemoteCoordinator final : public CoordinatorClient {
 public:
  RemoteCoordinator(const std::string& address, const Security& security)
      : poller_(address, security), sender_(address, security) {}

  void Poll() override { poller_.Poll(); }
  StatusReply latest() const override { return poller_.latest(); }
  absl::Time latest_asked() const override { return poller_.latest_asked(); }
  void Report(JobEvent event) override { sender_.Report(std::move(event)); }

 private:
  StatusPoller poller_;
  EventSender sender_;
};

}  // namespace

std::unique_ptr<CoordinatorClient> CoordinatorClient::Connect(
    const std::string& address, const Security& security) {
  return std::make_unique<RemoteCoordinator>(address, security);
}

}  // namespace tributary
