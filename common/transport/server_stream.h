// The server's end of a bidirectional stream: one read and one write in flight,
// a queue in front of the writes, and one Finish, however the stream ends.
// Services derive from it and see messages only.
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

// Made with new when a call begins; Start must follow. Counts among the
// service's live calls until it deletes itself, when gRPC
// has done with the call. Send and Close are thread-safe and may be called
// until OnGone has returned.
template <typename In, typename Out>
class ServerStream : public grpc::ServerBidiReactor<In, Out> {
 public:
  explicit ServerStream(std::shared_ptr<LiveCalls> calls)
      : token_(std::move(calls)) {}

  // Begins to read. To be called once, when the derived class is built. A
  // client that has said nothing for `silence` is sent away.
  void Start(absl::Duration silence) {
    {
      absl::MutexLock lock(&watch_->mu);
      watch_->stream = this;
    }
    watch_->alarm.Set(absl::ToChronoTime(absl::Now() + silence),
                      // The alarm keeps this as long as the watch keeps it.
                      [weak = std::weak_ptr<Watch>(watch_)](bool over) {
                        const std::shared_ptr<Watch> watch = weak.lock();
                        if (over && watch != nullptr) watch->SendAway();
                      });
    this->StartRead(&in_);
  }

  // Queues a message. Those with lower `priority` are written first, those with
  // equal priority in the order of calls.
  void Send(Out message, int64_t priority = 0) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_.has_value()) return;
    queue_.emplace(priority, std::move(message));
    Proceed();
  }

  // Takes messages with this priority, if they still wait, out of the queue.
  // True: there were some.
  bool Drop(int64_t priority) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return queue_.erase(priority) > 0;
  }

  // TakeMore has something.
  void Wake() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Proceed();
  }

  // Ends the call with `status` when the queue has been written. Later calls,
  // and messages, are ignored.
  void Close(const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_.has_value()) return;
    closing_ = status;
    Proceed();
  }

 protected:
  ~ServerStream() override = default;

  // A message has come; the next is read when this returns. Must not block.
  virtual void OnMessage(In* message) = 0;
  // No more messages will come: the client has half-closed, or is gone.
  virtual void OnEnd() = 0;
  // The call is over; nothing may be called on this object after this returns.
  virtual void OnGone() = 0;
  // Makes a message when the queue is empty and the last one has been written:
  // what has gathered meanwhile travels together. False: nothing to say. Called
  // with the stream's lock held.
  virtual bool TakeMore(Out*) { return false; }

 private:
  // Waits for the first message. Outlives the stream while the alarm's callback
  // runs.
  struct Watch {
    void SendAway() ABSL_LOCKS_EXCLUDED(mu) {
      absl::MutexLock lock(&mu);
      if (stream == nullptr) return;
      stream->Close(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                                 "the call was opened, and nothing was said"));
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
      closing_ = grpc::Status(grpc::StatusCode::CANCELLED, "peer is gone");
    }
    Proceed();
  }

  void OnDone() final {
    OnGone();
    watch_->End();
    // Whoever called Finish from outside of a reaction may still hold the lock.
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

  In in_;                 // Touched only by the read in flight and OnMessage.
  bool greeted_ = false;  // The same.

  absl::Mutex mu_;
  std::multimap<int64_t, Out> queue_ ABSL_GUARDED_BY(mu_);
  Out out_ ABSL_GUARDED_BY(mu_);  // Belongs to gRPC while writing_.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<grpc::Status> closing_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_SERVER_STREAM_H_
