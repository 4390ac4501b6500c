// One direction of a call within a process.
#ifndef TRIBUTARY_COMMON_STREAM_LOCAL_QUEUE_H_
#define TRIBUTARY_COMMON_STREAM_LOCAL_QUEUE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"
#include "common/stream/message_stream.h"

namespace tributary {

// Delivers the messages of one sender in tasks of an executor, one after the
// other. Thread-safe; no method blocks.
template <typename Message>
class LocalQueue {
 public:
  // Only take_more is called with the queue's lock held, and concurrently with
  // another handler. No handler may block.
  struct Handlers {
    // See TakeMore of ServerSession and ClientSession.
    std::function<bool(Message*)> take_more;
    // Receives a message. If it returns false, the queue pauses until Resume.
    std::function<bool(const Message&, ReceivedPayload)> deliver;
    // Called when all messages have been delivered; see ServerSession::OnSent.
    // May be null.
    std::function<void()> sent;
    // Called once after all messages that were sent before Close.
    std::function<void()> closed;
    // Called once after Cut, which ends the queue for good: from then on,
    // nothing is called any more.
    std::function<void()> cut;
  };

  // `takes_after_close`: after Close, take_more may still provide messages.
  LocalQueue(Executor* executor, bool takes_after_close)
      : executor_(*executor), takes_after_close_(takes_after_close) {}
  LocalQueue(const LocalQueue&) = delete;
  LocalQueue& operator=(const LocalQueue&) = delete;

  // Starts to deliver. `owner` owns this queue, which holds it until Cut.
  void Start(Handlers handlers, std::shared_ptr<void> owner)
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    handlers_ = std::move(handlers);
    owner_ = std::move(owner);
    Proceed();
  }

  // See MessageStream and ServerStream.
  void Send(const Message& message, OutgoingPayload payload, int64_t priority)
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closed_ || stopped_) return;
    queue_.emplace(priority, Item{message, std::move(payload)});
    Proceed();
  }
  bool Drop(absl::Span<const int64_t> priorities) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return DropFrom(&queue_, priorities);
  }
  void Wake() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Proceed();
  }
  void Resume() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    paused_ = false;
    Proceed();
  }

  // Ends the queue after all messages, and calls `ending`, with the lock held,
  // unless it has ended already.
  template <typename Ending>
  void Close(const Ending& ending) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closed_ || stopped_) return;
    ending();
    closed_ = true;
    Proceed();
  }
  // Drops all messages.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
    queue_.clear();
  }
  // Ends the queue at once, and calls `ending`, with the lock held, unless
  // Close has ended the queue already.
  template <typename Ending>
  void Cut(const Ending& ending) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (cut_) return;
    if (!closed_) ending();
    stopped_ = true;
    cut_ = true;
    queue_.clear();
    Proceed();
  }

 private:
  struct Item {
    Message message;
    OutgoingPayload payload;
  };

  // Lets a task deliver what there is.
  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (delivering_ || owner_ == nullptr) return;
    delivering_ = true;
    executor_.Run([this, owner = owner_] { Deliver(); });
  }

  void Deliver() ABSL_LOCKS_EXCLUDED(mu_) {
    while (const std::function<void()> next = TakeNext()) next();
  }

  // Returns what is to be done next; null if there is nothing.
  std::function<void()> TakeNext() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (cut_) {
      // The task that is running keeps the owner.
      owner_ = nullptr;
      return std::exchange(handlers_.cut, nullptr);
    }
    if (!paused_) {
      if (!queue_.empty()) {
        auto item = std::make_shared<Item>(std::move(queue_.begin()->second));
        queue_.erase(queue_.begin());
        return DeliveryOf(std::move(item));
      }
      if (!stopped_ && !closed_told_ && (!closed_ || takes_after_close_)) {
        auto item = std::make_shared<Item>();
        if (handlers_.take_more(&item->message)) return DeliveryOf(item);
      }
      if (closed_ && !std::exchange(closed_told_, true)) {
        return handlers_.closed;
      }
      if (std::exchange(sent_due_, false) && !closed_ && !stopped_ &&
          handlers_.sent) {
        return handlers_.sent;
      }
    }
    delivering_ = false;
    return nullptr;
  }

  std::function<void()> DeliveryOf(std::shared_ptr<Item> item)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    sent_due_ = true;
    // Until `deliver` has returned true. Resume may come before that.
    paused_ = true;
    return [this, item = std::move(item)] {
      const OutgoingPayload& payload = item->payload;
      const bool goes_on =
          payload.data == nullptr
              ? handlers_.deliver(item->message, ReceivedPayload())
              : handlers_.deliver(item->message,
                                  ReceivedPayload(payload.data, payload.bytes,
                                                  payload.owner));
      if (!goes_on) return;
      absl::MutexLock lock(&mu_);
      paused_ = false;
    };
  }

  Executor& executor_;
  const bool takes_after_close_;
  absl::Mutex mu_;
  Handlers handlers_;  // Set by Start.
  // Null before Start and after the end.
  std::shared_ptr<void> owner_ ABSL_GUARDED_BY(mu_);
  std::multimap<int64_t, Item> queue_ ABSL_GUARDED_BY(mu_);
  // True while a task delivers.
  bool delivering_ ABSL_GUARDED_BY(mu_) = false;
  bool paused_ ABSL_GUARDED_BY(mu_) = false;
  bool sent_due_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;       // Close was called.
  bool closed_told_ ABSL_GUARDED_BY(mu_) = false;  // And its handler.
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;      // Stop or Cut was called.
  bool cut_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_LOCAL_QUEUE_H_
