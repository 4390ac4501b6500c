#include "deploy/launch/job/status_poller.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/transport/channel.h"
#include "proto/rendezvous.grpc.pb.h"

namespace tributary {

// How long the destructor waits for the end of a call that it has cancelled. If
// memory was exhausted, gRPC may lack the thread that would report the end.
constexpr absl::Duration kCancelTimeout = absl::Seconds(1);

class StatusPoller::Impl {
 public:
  Impl(const std::string& address, const Security& security)
      : stub_(Rendezvous::NewStub(CreateChannel(address, security))) {}

  // Cancels the call in flight. Returns false if it does not end, so that this
  // object must not be destroyed.
  bool End() ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      // Safe under the lock, because gRPC runs the callback on a thread of its
      // own.
      if (call_ != nullptr) call_->context.TryCancel();
    }
    AwaitAnswer(absl::Now() + kCancelTimeout);
    absl::MutexLock lock(&mu_);
    return call_ == nullptr;
  }

  void Poll() ABSL_LOCKS_EXCLUDED(mu_) {
    Call* call = nullptr;
    {
      absl::MutexLock lock(&mu_);
      if (call_ != nullptr) return;
      call_ = std::make_unique<Call>();
      call_->asked = absl::Now();
      call = call_.get();
    }
    call->context.set_deadline(std::chrono::system_clock::now() +
                               std::chrono::seconds(1));
    stub_->async()->GetStatus(
        &call->context, &call->request, &call->reply,
        [this](const grpc::Status& status) { OnDone(status); });
  }

  void AwaitAnswer(absl::Time deadline) const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithDeadline(
        absl::Condition(
            +[](const std::unique_ptr<Call>* call) { return *call == nullptr; },
            &call_),
        deadline);
  }

  StatusReply latest() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return latest_;
  }
  absl::Time latest_time() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return latest_time_;
  }
  absl::Time latest_asked() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return latest_asked_;
  }

 private:
  struct Call {
    absl::Time asked;
    grpc::ClientContext context;
    StatusRequest request;
    StatusReply reply;
  };

  void OnDone(const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (status.ok()) {
      latest_ = call_->reply;
      latest_time_ = absl::Now();
      latest_asked_ = call_->asked;
    }
    call_.reset();
  }

  const std::unique_ptr<Rendezvous::Stub> stub_;
  mutable absl::Mutex mu_;
  std::unique_ptr<Call> call_ ABSL_GUARDED_BY(mu_);
  StatusReply latest_ ABSL_GUARDED_BY(mu_);
  absl::Time latest_time_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Time latest_asked_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

StatusPoller::StatusPoller(const std::string& address, const Security& security)
    : impl_(std::make_unique<Impl>(address, security)) {}
StatusPoller::~StatusPoller() {
  // The callback of a call that has not ended may still use the object.
  if (!impl_->End()) (void)impl_.release();
}
void StatusPoller::Poll() { impl_->Poll(); }
void StatusPoller::AwaitAnswer(absl::Time deadline) const {
  impl_->AwaitAnswer(deadline);
}
StatusReply StatusPoller::latest() const { return impl_->latest(); }
absl::Time StatusPoller::latest_time() const { return impl_->latest_time(); }
absl::Time StatusPoller::latest_asked() const { return impl_->latest_asked(); }

}  // namespace tributary
