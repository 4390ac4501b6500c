// What a worker of a pipeline receives from another one that has greeted it.
// Input: messages, each after its length (one byte, in units of the second
// byte of the input; so messages may have any size). The first byte says which
// transfers the receiver takes before it releases them.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/transport/chunk_codec.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/pipeline.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/exchange/stages/stage_receiver.h"

namespace tributary {
namespace {

constexpr int64_t kSender = 1;
constexpr int64_t kLargest = 300;
constexpr int kSlots = 2;

// Keeps no messages; remembers whether it was closed.
class NoStream final : public ServerStream<StageReply> {
 public:
  using ServerStream<StageReply>::Send;
  void Send(const StageReply&, OutgoingPayload, int64_t) override {}
  void Wake() override {}
  bool Drop(absl::Span<const int64_t>) override { return false; }
  void Close(const absl::Status&) override { closed_ = true; }
  bool closed() const { return closed_; }

 private:
  bool closed_ = false;
};

class Receiver {
 public:
  Receiver()
      : plan_(*TransferPlan::Create(
            {{0, StageTransfer::ACTIVATION, kLargest, kSlots},
             {1, StageTransfer::WEIGHT_GRADIENT, 0, kSlots}},
            /*micro_batches=*/4)),
        admission_({"", "", plan_.signature(), /*incarnation=*/0}),
        session_({&plan_, &inbox_, &admission_}, &stream_) {
    inbox_.BeginEpoch(1, 0);
    admission_.SetPeers(1, {{kSender, ""}});
    StageMessage message;
    message.mutable_hello()->set_plan_signature(plan_.signature());
    message.mutable_hello()->set_sender(kSender);
    message.mutable_hello()->set_epoch(1);
    session_.OnMessage(message, {});
    TRIBUTARY_FUZZ_CHECK(!stream_.closed());
  }
  ~Receiver() { session_.OnGone(); }

  // Returns false after the end of the stream.
  bool Take(absl::string_view bytes) {
    const grpc::Slice slice(bytes.data(), bytes.size());
    grpc::ByteBuffer buffer(&slice, 1);
    StageMessage message;
    ReceivedPayload payload;
    if (!DecodeInPlace(&buffer, &message, &payload).ok()) return false;
    session_.OnMessage(message, std::move(payload));
    TRIBUTARY_FUZZ_CHECK(inbox_.held() + taken_.size() <= 2 * kSlots);
    return !stream_.closed();
  }
  // Takes the held transfers of micro-batch `micro_batch` of the first steps.
  void Ask(int micro_batch) {
    for (int64_t step = 0; step < 3; ++step) {
      const TransferKey key = {step, micro_batch, 0, StageTransfer::ACTIVATION};
      if (!inbox_.ReadyForTest(1, kSender, key)) continue;
      auto received = inbox_.Receive(1, kSender, key);
      if (!received.ok()) continue;
      TRIBUTARY_FUZZ_CHECK(received->bytes >= 0 && received->bytes <= kLargest);
      sum_ += std::count(received->data, received->data + received->bytes, 'x');
      taken_.push_back(*std::move(received));
    }
  }
  void Release() { taken_.clear(); }

 private:
  const TransferPlan plan_;
  TransferInbox inbox_;
  StageAdmission admission_;
  NoStream stream_;
  StageReceiver session_;
  std::vector<ReceivedTransfer> taken_;
  int64_t sum_ = 0;
};

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  tributary::Receiver receiver;
  const int asks = data[0];
  const size_t unit = std::max<size_t>(1, data[1]);
  size_t at = 2;
  for (int i = 0; at < size; ++i) {
    const size_t length = std::min(data[at] * unit, size - at - 1);
    const absl::string_view message(
        reinterpret_cast<const char*>(data) + at + 1, length);
    if (!receiver.Take(message)) break;
    if ((asks >> i % 8 & 1) != 0) receiver.Ask(i % 4);
    if ((asks >> (i + 3) % 8 & 1) != 0) receiver.Release();
    at += 1 + length;
  }
  return 0;
}
