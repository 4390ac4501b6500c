// The client's end of a bidirectional stream, with one read and one write in
// flight and a queue of messages to write.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CLIENT_STREAM_H_
#define TRIBUTARY_COMMON_TRANSPORT_CLIENT_STREAM_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"

namespace tributary {

// Sends and receives the messages of one call. The owner starts the call on an
// async stub with context() and this object as the reactor, calls Start, and
// keeps the object until AwaitDone has returned. Send, HalfClose and Cancel are
// thread-safe.
template <typename In, typename Out>
class ClientStream : public grpc::ClientBidiReactor<Out, In> {
 public:
  grpc::ClientContext* context() { return &context_; }

  void Start() {
    // Writes start outside of reactions, so a hold must keep the call open.
    this->AddHold();
    this->StartRead(&in_);
    this->StartCall();
  }

  // Queues a message. Messages of lower `priority` are written first, messages
  // of equal priority in the order of calls.
  void Send(Out message, int64_t priority = 0) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_ || broken_) return;
    queue_.emplace(priority, std::move(message));
    Proceed();
  }

  // Tells the stream that TakeMore has a message to send.
  void Wake() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Proceed();
  }

  // Half-closes the stream after the queue has been written. Later messages are
  // ignored.
  void HalfClose() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_ || broken_) return;
    closing_ = true;
    Proceed();
  }

  // Cancels the call immediately.
  void Cancel() ABSL_LOCKS_EXCLUDED(mu_) {
    context_.TryCancel();
    absl::MutexLock lock(&mu_);
    Break();
  }

  // Resumes reading after OnMessage has returned false.
  void Resume() { this->StartRead(&in_); }

  // Blocks until the call has ended and no more callbacks of this object run.
  // Returns the call's status.
  grpc::Status AwaitDone() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&done_));
    return status_;
  }

 protected:
  // Called for each message. Return true to read the next one. Return false to
  // pause until Resume; `message` stays unchanged until then. Must not block.
  virtual bool OnMessage(In* message) = 0;
  // Called when the call has ended.
  virtual void OnGone(const grpc::Status& status) = 0;
  // Called when the queue is empty and the last write has finished, so that
  // data which accumulated during the write goes into one message. Fills the
  // message and returns true, or returns false if there is nothing to send. The
  // stream's lock is held.
  virtual bool TakeMore(Out*) { return false; }

 private:
  void OnReadDone(bool ok) final {
    if (ok) {
      if (OnMessage(&in_)) this->StartRead(&in_);
      return;
    }
    absl::MutexLock lock(&mu_);
    Break();
  }

  void OnWriteDone(bool ok) final ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) {
      Break();
    } else {
      Proceed();
    }
  }

  void OnDone(const grpc::Status& status) final {
    OnGone(status);
    absl::MutexLock lock(&mu_);
    status_ = status;
    done_ = true;
  }

  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || broken_ || released_) return;
    if (!queue_.empty()) {
      out_ = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
    } else if (!TakeMore(&out_)) {
      if (!closing_) return;
      this->StartWritesDone();
      Release();
      return;
    }
    writing_ = true;
    this->StartWrite(&out_);
  }

  // Stops writing, which lets the call end.
  void Break() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    broken_ = true;
    queue_.clear();
    Release();
  }

  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (released_) return;
    released_ = true;
    this->RemoveHold();
  }

  grpc::ClientContext context_;
  In in_;  // Accessed only by the read in flight and OnMessage.

  absl::Mutex mu_;
  std::multimap<int64_t, Out> queue_ ABSL_GUARDED_BY(mu_);
  Out out_ ABSL_GUARDED_BY(mu_);  // Owned by gRPC while writing_ is true.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CLIENT_STREAM_H_
