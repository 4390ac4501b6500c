// A ClientStream over gRPC, with one read and one write in flight and a queue
// of messages to write.
#ifndef TRIBUTARY_COMMON_TRANSPORT_GRPC_CLIENT_STREAM_H_
#define TRIBUTARY_COMMON_TRANSPORT_GRPC_CLIENT_STREAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/stream/message_stream.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/client_callback.h"

namespace tributary {

// Sends and receives the messages of one call of `method`, such as
// "/tributary.Rendezvous/Membership". Thread-safe.
template <typename In, typename Out>
class GrpcClientStream final
    : public ClientStream<In, Out>,
      private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // The call ends with DeadlineExceeded if it takes longer than `timeout`.
  GrpcClientStream(std::shared_ptr<grpc::Channel> channel, std::string method,
                   absl::Duration timeout = absl::InfiniteDuration())
      : method_(std::move(method)),
        timeout_(timeout),
        stub_(std::move(channel)) {}

  void Start(ClientSession<In, Out>* session) override {
    session_ = session;
    if (timeout_ < absl::InfiniteDuration()) {
      context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
    }
    stub_.PrepareBidiStreamingCall(&context_, method_, grpc::StubOptions(),
                                   this);
    // Writes may start outside of gRPC's callbacks, so a hold must keep the
    // call open.
    this->AddHold();
    this->StartRead(&in_);
    this->StartCall();
  }

  using ClientStream<In, Out>::Send;
  void Send(const Out& message, OutgoingPayload payload,
            int64_t priority) override ABSL_LOCKS_EXCLUDED(mu_) {
    grpc::ByteBuffer bytes = EncodeAny(message, std::move(payload));
    absl::MutexLock lock(&mu_);
    if (closing_ || broken_) return;
    queue_.emplace(priority, std::move(bytes));
    Proceed();
  }

  void Wake() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Proceed();
  }

  void HalfClose() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_ || broken_) return;
    closing_ = true;
    Proceed();
  }

  void Cancel() override ABSL_LOCKS_EXCLUDED(mu_) {
    context_.TryCancel();
    absl::MutexLock lock(&mu_);
    Break();
  }

  void Resume() override { this->StartRead(&in_); }

  absl::Status AwaitDone() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&done_));
    return status_;
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok && HandleRead()) return;
    absl::MutexLock lock(&mu_);
    Break();
  }

  // Returns false if the message cannot be decoded.
  bool HandleRead() {
    In message;
    ReceivedPayload payload;
    malformed_ = DecodeAny(&in_, &message, &payload);
    if (!malformed_.ok()) {
      context_.TryCancel();
      return false;
    }
    if (session_->OnMessage(message, std::move(payload))) {
      this->StartRead(&in_);
    }
    return true;
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    out_.Clear();  // Frees the payload, even if no message follows.
    if (!ok) {
      Break();
    } else {
      Proceed();
    }
  }

  void OnDone(const grpc::Status& ended) override {
    const absl::Status status = malformed_.ok() ? FromGrpc(ended) : malformed_;
    session_->OnGone(status);
    absl::MutexLock lock(&mu_);
    status_ = status;
    done_ = true;
  }

  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || broken_ || released_) return;
    if (!queue_.empty()) {
      out_ = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
    } else if (Out more; session_->TakeMore(&more)) {
      out_ = Encode(more);
    } else {
      if (!closing_) return;
      this->StartWritesDone();
      Release();
      return;
    }
    writing_ = true;
    this->StartWrite(&out_);
  }

  // Stops writing messages, which lets the call end.
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

  const std::string method_;
  const absl::Duration timeout_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext context_;
  ClientSession<In, Out>* session_ = nullptr;
  // The message that is being read, and the error if it cannot be decoded.
  // Accessed only by the read in flight and, after the last read, by OnDone.
  grpc::ByteBuffer in_;
  absl::Status malformed_;

  absl::Mutex mu_;
  std::multimap<int64_t, grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mu_);
  // The message that is being written. Owned by gRPC while writing_ is true.
  grpc::ByteBuffer out_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_GRPC_CLIENT_STREAM_H_
