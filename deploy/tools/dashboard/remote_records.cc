#include "deploy/tools/dashboard/remote_records.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/thread.h"
#include "common/transport/channel.h"
#include "deploy/tools/dashboard/records_copy.h"
#include "proto/rendezvous.grpc.pb.h"

namespace tributary {

class RemoteRecords::Impl {
 public:
  Impl(const std::string& address, const Security& security)
      : address_(address),
        stub_(Rendezvous::NewStub(CreateChannel(address, security))),
        thread_([this] { FetchUntilStopped(); }) {}

  ~Impl() {
    {
      absl::MutexLock lock(&mu_);
      stopped_ = true;
      if (call_ != nullptr) call_->TryCancel();
    }
    thread_.Join();
  }

  void Poll() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    wanted_ = true;
  }
  absl::StatusOr<InputFile> OpenLines() const { return copy_.OpenLines(); }
  std::vector<JobEvent> events() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return events_;
  }
  std::string job() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return job_;
  }
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return status_;
  }

 private:
  void FetchUntilStopped() ABSL_LOCKS_EXCLUDED(mu_) {
    while (AwaitPoll()) {
      while (Fetch()) {
      }
    }
  }

  // Returns false once the destructor has begun.
  bool AwaitPoll() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](Impl* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mu_) {
          return self->wanted_ || self->stopped_;
        },
        this));
    wanted_ = false;
    return !stopped_;
  }

  // Makes one call. Returns true if there are more lines.
  bool Fetch() ABSL_LOCKS_EXCLUDED(mu_) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(10));
    {
      absl::MutexLock lock(&mu_);
      if (stopped_) return false;
      call_ = &context;
    }
    RecordsReply reply;
    absl::Status status = FromGrpc(
        stub_->GetRecords(&context, copy_.NextRequest(), &reply), address_);
    if (status.ok()) status = copy_.Apply(reply);
    absl::MutexLock lock(&mu_);
    call_ = nullptr;
    events_.assign(copy_.events().begin(), copy_.events().end());
    job_ = copy_.job();
    status_ = status;
    return status.ok() && reply.more() && !stopped_;
  }

  const std::string address_;
  const std::unique_ptr<Rendezvous::Stub> stub_;
  RecordsCopy copy_;  // Used by `thread_` only, except OpenLines().
  mutable absl::Mutex mu_;
  bool wanted_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mu_) = nullptr;  // In flight.
  std::vector<JobEvent> events_ ABSL_GUARDED_BY(mu_);
  std::string job_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

RemoteRecords::RemoteRecords(const std::string& address,
                             const Security& security)
    : impl_(std::make_unique<Impl>(address, security)) {}
RemoteRecords::~RemoteRecords() = default;
void RemoteRecords::Poll() { impl_->Poll(); }
absl::StatusOr<InputFile> RemoteRecords::OpenLines() const {
  return impl_->OpenLines();
}
std::vector<JobEvent> RemoteRecords::events() const { return impl_->events(); }
std::string RemoteRecords::job() const { return impl_->job(); }
absl::Status RemoteRecords::status() const { return impl_->status(); }

}  // namespace tributary
