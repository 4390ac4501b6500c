// The server's end of a bidirectional stream: one read and one write in flight,
// a queue of messages to write, and exactly one Finish. Services derive from it
// and handle messages only.
#ifndef TRIBUTARY_COMMON_TRANSPORT_SERVER_STREAM_H_
#define TRIBUTARY_COMMON_TRANSPORT_SERVER_STREAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/transport/live_calls.h"
#include "grpcpp/alarm.h"
#include "grpcpp/support/server_callback.h"

namespace tributary {

// Serves one call. Created with new when the call begins; call Start after
// construction. Counts as a live call of the service until gRPC has finished
// the call and the object deletes itself. Send and Close are thread-safe, and
// may be called until OnGone has returned.
template <typename In, typename Out>
class ServerStream : public grpc::ServerBidiReactor<In, Out> {
 public:
  explicit ServerStream(std::shared_ptr<LiveCalls> calls)
      : token_(std::move(calls)) {}

  // Starts to read. Call once, after the derived class is constructed. Closes
  // the call if no message arrives within `silence`.
  void Start(absl::Duration silence) {
    {
      absl::MutexLock lock(&watch_->mu);
      watch_->stream = this;
    }
    watch_->alarm.Set(absl::ToChronoTime(absl::Now() + silence),
                      // The alarm is a member of the watch, so it holds a weak
                      // reference.
                      [weak = std::weak_ptr<Watch>(watch_)](bool over) {
                        const std::shared_ptr<Watch> watch = weak.lock();
                        if (over && watch != nullptr) watch->SendAway();
                      });
    this->StartRead(&in_);
  }

  // Queues a message. Messages of lower `priority` are written first, messages
  // of equal priority in the order of calls.
  void Send(Out message, int64_t priority = 0) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_.has_value()) return;
    queue_.emplace(priority, std::move(message));
    Proceed();
  }

  // Removes queued messages of this priority. Returns true if there were any.
  bool Drop(int64_t priority) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return queue_.erase(priority) > 0;
  }

  // Tells the stream that TakeMore has a message to send.
  void Wake() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Proceed();
  }

  // Ends the call with `status` after the queue has been written. Later calls
  // and messages are ignored.
  void Close(const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_.has_value()) return;
    closing_ = status;
    Proceed();
  }

 protected:
  ~ServerStream() override = default;

  // Called for each message. The next one is read after it returns. Must not
  // block.
  virtual void OnMessage(In* message) = 0;
  // Called when no more messages will arrive: the client has half-closed or
  // disconnected.
  virtual void OnEnd() = 0;
  // Called when the call has ended. No method of this object may be called
  // after it returns.
  virtual void OnGone() = 0;
  // Called when the queue is empty and the last write has finished, so that
  // data which accumulated during the write goes into one message. Fills the
  // message and returns true, or returns false if there is nothing to send. The
  // stream's lock is held.
  virtual bool TakeMore(Out*) { return false; }

 private:
  // Closes the call if its first message does not arrive in time. Outlives the
  // stream while the alarm's callback runs.
  struct Watch {
    void SendAway() ABSL_LOCKS_EXCLUDED(mu) {
      absl::MutexLock lock(&mu);
      if (stream == nullptr) return;
      stream->Close(
          grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                       "no message arrived after the call was opened"));
    }
    void End() ABSL_LOCKS_EXCLUDED(mu) {
      {
        absl::MutexLock lock(&mu);
        stream = nullptr;
      }
      alarm.Cancel();
    }

    absl::Mutex mu;
    ServerStream* stream ABSL_GUARDED_BY(mu) = nullptr;
    grpc::Alarm alarm;
  };

  void OnReadDone(bool ok) final {
    if (!greeted_) {
      greeted_ = true;
      watch_->End();
    }
    if (!ok) {
      OnEnd();
      return;
    }
    OnMessage(&in_);
    this->StartRead(&in_);
  }

  void OnWriteDone(bool ok) final ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) queue_.clear();
    Proceed();
  }

  void OnCancel() final ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    queue_.clear();
    if (!closing_.has_value()) {
      closing_ = grpc::Status(grpc::StatusCode::CANCELLED,
                              "the peer has disconnected");
    }
    Proceed();
  }

  void OnDone() final {
    OnGone();
    watch_->End();
    // A thread that called Finish outside of a reaction may still hold the
    // lock.
    { absl::MutexLock lock(&mu_); }
    delete this;
  }

  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || finished_) return;
    if (!queue_.empty()) {
      out_ = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
    } else if (closing_.has_value()) {
      finished_ = true;
      this->Finish(*closing_);
      return;
    } else if (!TakeMore(&out_)) {
      return;
    }
    writing_ = true;
    this->StartWrite(&out_);
  }

  const LiveCalls::Token token_;
  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();

  In in_;                 // Accessed only by the read in flight and OnMessage.
  bool greeted_ = false;  // Accessed like in_.

  absl::Mutex mu_;
  std::multimap<int64_t, Out> queue_ ABSL_GUARDED_BY(mu_);
  Out out_ ABSL_GUARDED_BY(mu_);  // Owned by gRPC while writing_ is true.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<grpc::Status> closing_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_SERVER_STREAM_H_
