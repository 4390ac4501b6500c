#include "common/stream/replica_stream.h"

#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace tributary {
namespace {

class ReplicationSession final
    : public ReplicaStream,
      private ClientSession<JournalAnswer, JournalMessage> {
 public:
  ReplicationSession(std::unique_ptr<ReplicationClientStream> stream,
                     std::string address,
                     std::function<void(const absl::Status&)> lost)
      : address_(std::move(address)),
        lost_(std::move(lost)),
        stream_(std::move(stream)) {}

  void Begin(const JournalHello& hello) {
    stream_->Start(this);
    JournalMessage message;
    *message.mutable_hello() = hello;
    stream_->Send(message);
  }

  void Send(int64_t version, const Snapshot::Chunk& copy,
            std::function<void()> kept) override {
    absl::MutexLock lock(&order_mu_);
    if (ending_) return;
    waiting_.push_back(std::move(kept));
    for (int array = 0; array <= static_cast<int>(copy.slots.size()); ++array) {
      ReplicaPart part(version, copy, array);
      stream_->Send(part.message, std::move(part.payload), /*priority=*/0);
    }
  }

  void Send(ReplicaRows part, std::function<void()> kept) override {
    absl::MutexLock lock(&order_mu_);
    if (ending_) return;
    waiting_.push_back(std::move(kept));
    JournalMessage message;
    *message.mutable_rows() = std::move(part.rows);
    stream_->Send(message, std::move(part.payload), /*priority=*/0);
  }

  void End() override {
    {
      absl::MutexLock lock(&order_mu_);
      ending_ = true;
    }
    stream_->Cancel();
    (void)stream_->AwaitDone();
  }

 private:
  bool OnMessage(const JournalAnswer& answer, ReceivedPayload) override {
    std::vector<std::function<void()>> done;
    {
      absl::MutexLock lock(&order_mu_);
      for (; kept_ < answer.kept() && !waiting_.empty(); ++kept_) {
        done.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
    }
    for (const auto& kept : done) {
      if (kept != nullptr) kept();
    }
    return true;
  }

  void OnGone(const absl::Status& status) override {
    {
      absl::MutexLock lock(&order_mu_);
      if (ending_) return;
    }
    lost_(status.ok()
              ? absl::UnavailableError(
                    absl::StrCat(address_, ": ended the replication"))
              : absl::Status(status.code(),
                             absl::StrCat(address_, ": ", status.message())));
  }

  const std::string address_;
  const std::function<void(const absl::Status&)> lost_;
  const std::unique_ptr<ReplicationClientStream> stream_;
  absl::Mutex order_mu_;
  bool ending_ ABSL_GUARDED_BY(order_mu_) = false;
  int64_t kept_ ABSL_GUARDED_BY(order_mu_) = 0;
  // Callbacks of the copies that were sent but not acknowledged.
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(order_mu_);
};

}  // namespace

ReplicaPart::ReplicaPart(int64_t version, const Snapshot::Chunk& chunk,
                         int array) {
  message.mutable_part()->set_version(version);
  message.mutable_part()->set_chunk(chunk.number);
  message.mutable_part()->set_array(array);
  const Buffer& values = array == 0 ? chunk.values : chunk.slots[array - 1];
  payload = {values.get(), chunk.elements * int64_t{sizeof(float)}, values};
}

std::unique_ptr<ReplicaStream> StartReplicaStream(
    std::unique_ptr<ReplicationClientStream> stream, const std::string& address,
    const JournalHello& hello, std::function<void(const absl::Status&)> lost) {
  auto session = std::make_unique<ReplicationSession>(std::move(stream),
                                                      address, std::move(lost));
  session->Begin(hello);
  return session;
}

}  // namespace tributary
