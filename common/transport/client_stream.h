// The client's end of a bidirectional stream: one read and one write in flight,
// a queue in front of the writes.
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

// The owner binds it to a call (an async stub with context() and this as the
// reactor), calls Start, and must keep it until AwaitDone has returned. Send,
// HalfClose and Cancel are thread-safe.
template <typename In, typename Out>
class ClientStream : public grpc::ClientBidiReactor<Out, In> {
 public:
  grpc::ClientContext* context() { return &context_; }

  void Start() {
    // Writes start outside of reactions, so the call must not end by itself.
    this->AddHold();
    this->StartRead(&in_);
    this->StartCall();
  }

  // Queues a message. Those with lower `priority` are written first, those with
  // equal priority in the order of calls.
  void Send(Out message, int64_t priority = 0) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_ || broken_) return;
    queue_.emplace(priority, std::move(message));
    Proceed();
  }

  // TakeMore has something.
  void Wake() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Proceed();
  }

  // Says goodbye when the queue has been written. Later messages are ignored.
  void HalfClose() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_ || broken_) return;
    closing_ = true;
    Proceed();
  }

  // Ends the call at once.
  void Cancel() ABSL_LOCKS_EXCLUDED(mu_) {
    context_.TryCancel();
    absl::MutexLock lock(&mu_);
    Break();
  }

  // Reads on after OnMessage has returned false.
  void Resume() { this->StartRead(&in_); }

  // Waits until the call is over and nothing of this object will be called any
  // more; its status.
  grpc::Status AwaitDone() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&done_));
    return status_;
  }

 protected:
  // A message has come. The next is read when this returns true; false: when
  // Resume is called, until when `message` stays as it is. Must not block.
  virtual bool OnMessage(In* message) = 0;
  // The call is over.
  virtual void OnGone(const grpc::Status& status) = 0;
  // Makes a message when the queue is empty and the last one has been written:
  // what has gathered meanwhile travels together. False: nothing to say. Called
  // with the stream's lock held.
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

  // No more writes: lets the call end.
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
  In in_;  // Touched only by the read in flight and OnMessage.

  absl::Mutex mu_;
  std::multimap<int64_t, Out> queue_ ABSL_GUARDED_BY(mu_);
  Out out_ ABSL_GUARDED_BY(mu_);  // Belongs to gRPC while writing_.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CLIENT_STREAM_H_
