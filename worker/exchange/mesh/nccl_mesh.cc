#include "worker/exchange/mesh/nccl_mesh.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "worker/exchange/mesh/device_messages.h"

namespace tributary {
namespace {

// The most hardware queues that CUDA permits.
constexpr int kMostQueues = 32;

// Marks tags of notices on the control mesh.
constexpr uint64_t kNoticeTag = uint64_t{1} << 63;
// Tag of the communicator's id, which precedes all messages.
constexpr uint64_t kIdTag = kNoticeTag - 1;
constexpr size_t kIdBytes = 128;
// NCCL reports completion only when polled.
constexpr absl::Duration kAskEvery = absl::Microseconds(50);
// Length of the first messages in both directions. NCCL allocates the memory of
// a connection, and CUDA loads NCCL's kernels, for the first messages.
constexpr size_t kFirstBytes = 1;
// Memory for the first messages of a connection: half of it for each direction.
constexpr size_t kFirstMemory = 128;

// What members tell each other on the control mesh.
struct Notice {
  enum Kind : uint64_t {
    kRound,  // The member sends this message in its next round.
    kAwaits  // The member waits for this message.
  };
  uint64_t kind = kRound;
  uint64_t tag = 0;
  uint64_t bytes = 0;  // 0 in a kRound: it sends nothing.
};

// The connection between this member and another. Messages are exchanged in
// rounds of at most one message in each direction, which are one operation of
// NCCL: neither direction waits for the other on the GPU.
struct Channel {
  int peer = 0;
  Device::Memory first{nullptr, nullptr};  // For the first messages.
  std::unique_ptr<CopyStream> stream;
  std::unique_ptr<Event> done;
  std::thread listener;  // Receives the peer's notices.
  std::thread mover;     // Runs the rounds.
  std::unique_ptr<NcclCommunicator> communicator;  // Set with the lock held.

  // Guarded by the mesh's lock.
  uint64_t notices = 0;  // Number of notices sent so far.
  // Notices of rounds that have not begun here; at most two, because the peer
  // cannot complete a round alone.
  std::deque<Notice> rounds;
  DeviceMessages messages;
};

class NcclMesh final : public DeviceMesh {
 public:
  NcclMesh(const NcclMeshOptions& options, std::unique_ptr<PeerMesh> control)
      : options_(options), control_(std::move(control)) {}
  ~NcclMesh() override {
    Abort();
    for (const auto& [peer, channel] : channels_) {
      if (channel->listener.joinable()) channel->listener.join();
      if (channel->mover.joinable()) channel->mover.join();
    }
  }

  // Creates the channels in an order that is the same for all members.
  absl::Status Connect();

  int rank() const override { return control_->rank(); }
  int size() const override { return control_->size(); }

  std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                 size_t bytes) override {
    return std::make_unique<HostMessage>(this,
                                         control_->Send(to, tag, data, bytes));
  }
  std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                    size_t bytes) override {
    return std::make_unique<HostMessage>(
        this, control_->Receive(from, tag, data, bytes));
  }
  std::unique_ptr<Transfer> SendFromDevice(
      int to, uint64_t tag, const void* data, size_t bytes,
      std::shared_ptr<Event> ready) override;
  std::unique_ptr<Transfer> ReceiveOnDevice(int from, uint64_t tag, void* data,
                                            size_t bytes) override;

  void Abort() override {
    End(absl::AbortedError("the all-reduce was cancelled"));
  }

 private:
  // A message between GPUs. Its fields are guarded by the mesh's lock.
  struct Message final : Transfer, DeviceMessage {
    Message(NcclMesh* mesh, Channel* channel) : mesh(mesh), channel(channel) {}
    ~Message() override { mesh->Remove(this); }
    absl::Status Wait() override { return mesh->Await(this); }

    NcclMesh* const mesh;
    Channel* const channel;
    // Of a message to receive: the notice that this member waits for it, and
    // the transfer of the notice.
    Notice notice;
    std::unique_ptr<Transfer> told;
  };

  // A message sent by the control mesh. If that mesh was aborted, Wait returns
  // the reason.
  struct HostMessage final : Transfer {
    HostMessage(NcclMesh* mesh, std::unique_ptr<Transfer> transfer)
        : mesh(mesh), transfer(std::move(transfer)) {}
    absl::Status Wait() override {
      const absl::Status status = transfer->Wait();
      return absl::IsAborted(status) ? mesh->end() : status;
    }

    NcclMesh* const mesh;
    const std::unique_ptr<Transfer> transfer;
  };

  // Blocks until the message is complete.
  absl::Status Await(Message* message) ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks while a channel's thread is moving the message.
  void Remove(Message* message) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status end() {
    absl::MutexLock lock(&mu_);
    return end_;
  }
  absl::Status Broken(int peer, const absl::Status& status) const {
    if (absl::IsAborted(status)) return status;
    return absl::UnavailableError(
        absl::StrCat("member ", peer, " of ", size(),
                     " of the all-reduce: ", status.message()));
  }
  // Records the first error and ends everything.
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status Prepare(Channel* channel);
  absl::Status MakeCommunicator(Channel* channel);
  // Waits until `ready` returns true, within the time limit.
  absl::Status Poll(const std::function<absl::StatusOr<bool>()>& ready)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status AwaitReady(NcclCommunicator* communicator) {
    return Poll([communicator] { return communicator->Ready(); });
  }
  // Sends a notice to the channel's peer. `notice` must outlive the transfer.
  std::unique_ptr<Transfer> Tell(Channel* channel, const Notice* notice)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Begins to exchange messages with the peer; either may be null.
  absl::Status BeginExchange(Channel* channel, const DeviceMessage* out,
                             const DeviceMessage* in);
  absl::Status AwaitExchange(Channel* channel);
  void Listen(Channel* channel);
  absl::Status ReceiveNotice(Channel* channel, uint64_t number);
  void Move(Channel* channel);
  // Waits for the peer's notice of the next round, and returns the message that
  // the peer sends, or null.
  absl::StatusOr<DeviceMessage*> AwaitRound(Channel* channel)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Runs a round in which `message`, unless null, is sent.
  absl::Status RunRound(Channel* channel, DeviceMessage* message);
  // Records how the move of a message, unless it is null, has ended.
  void EndMove(DeviceMessage* message, bool done) ABSL_LOCKS_EXCLUDED(mu_);

  const NcclMeshOptions options_;
  const std::unique_ptr<PeerMesh> control_;
  std::map<int, std::unique_ptr<Channel>> channels_;  // By peer.

  absl::Mutex mu_;
  // The error that ended the mesh, or OK.
  absl::Status end_ ABSL_GUARDED_BY(mu_);
};

std::unique_ptr<PeerMesh::Transfer> NcclMesh::SendFromDevice(
    int to, uint64_t tag, const void* data, size_t bytes,
    std::shared_ptr<Event> ready) {
  Channel* const channel = channels_.at(to).get();
  auto message = std::make_unique<Message>(this, channel);
  message->tag = tag;
  message->data = const_cast<void*>(data);
  message->bytes = bytes;
  message->ready = std::move(ready);
  absl::MutexLock lock(&mu_);
  channel->messages.AddOutgoing(message.get());
  return message;
}

std::unique_ptr<PeerMesh::Transfer> NcclMesh::ReceiveOnDevice(int from,
                                                              uint64_t tag,
                                                              void* data,
                                                              size_t bytes) {
  Channel* const channel = channels_.at(from).get();
  auto message = std::make_unique<Message>(this, channel);
  message->tag = tag;
  message->data = data;
  message->bytes = bytes;
  message->notice = {Notice::kAwaits, tag, bytes};
  {
    absl::MutexLock lock(&mu_);
    channel->messages.AddExpected(message.get());
  }
  message->told = Tell(channel, &message->notice);
  return message;
}

std::unique_ptr<PeerMesh::Transfer> NcclMesh::Tell(Channel* channel,
                                                   const Notice* notice) {
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mu_);
    number = channel->notices++;
  }
  return control_->Send(channel->peer, kNoticeTag | number, notice,
                        sizeof(*notice));
}

void NcclMesh::End(const absl::Status& status) {
  std::vector<NcclCommunicator*> communicators;
  {
    absl::MutexLock lock(&mu_);
    if (!end_.ok()) return;
    end_ = status;
    for (const auto& [peer, channel] : channels_) {
      if (channel->communicator == nullptr) continue;
      communicators.push_back(channel->communicator.get());
    }
  }
  control_->Abort();
  for (NcclCommunicator* const each : communicators) each->Abort();
}

absl::Status NcclMesh::Await(Message* message) {
  const auto over = [this, message]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return message->done || !end_.ok();
  };
  bool settled = false;
  {
    absl::MutexLock lock(&mu_);
    settled = AwaitUntil(&mu_, absl::Condition(&over),
                         MonotonicNow() + options_.timeout);
    if (settled && !message->done) return end_;
  }
  if (!settled) {
    End(Broken(
        message->channel->peer,
        absl::DeadlineExceededError(absl::StrCat(
            "no progress for ", absl::FormatDuration(options_.timeout)))));
    return end();
  }
  // The message has arrived, so the notice has.
  return message->told == nullptr ? absl::OkStatus() : message->told->Wait();
}

void NcclMesh::Remove(Message* message) {
  const auto idle = [message] { return !message->moving; };
  absl::MutexLock lock(&mu_, absl::Condition(&idle));
  message->channel->messages.Remove(message);
}

absl::Status NcclMesh::Connect() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    channels_[peer] = std::make_unique<Channel>();
    channels_[peer]->peer = peer;
  }
  // One at a time: nothing else runs on the GPU when memory is allocated.
  for (int first = 0; first < size(); ++first) {
    for (int second = first + 1; second < size(); ++second) {
      if (first != rank() && second != rank()) continue;
      const int peer = first == rank() ? second : first;
      const absl::Status status = Prepare(channels_[peer].get());
      TRIBUTARY_RETURN_IF_ERROR(end());
      if (!status.ok()) return Broken(peer, status);
    }
  }
  for (const auto& [peer, channel] : channels_) {
    channel->mover = std::thread([this, c = channel.get()] { Move(c); });
  }
  return absl::OkStatus();
}

absl::Status NcclMesh::Prepare(Channel* channel) {
  TRIBUTARY_ASSIGN_OR_RETURN(channel->stream,
                             options_.device->copies()->CreateStream());
  TRIBUTARY_ASSIGN_OR_RETURN(channel->done,
                             options_.device->copies()->CreateEvent());
  TRIBUTARY_ASSIGN_OR_RETURN(channel->first,
                             options_.device->Allocate(kFirstMemory));
  TRIBUTARY_RETURN_IF_ERROR(MakeCommunicator(channel));
  // Detects the loss of the peer from here on.
  channel->listener = std::thread([this, channel] { Listen(channel); });
  DeviceMessage out, in;
  out.bytes = in.bytes = kFirstBytes;
  out.data = channel->first.get();
  in.data = static_cast<char*>(out.data) + kFirstMemory / 2;
  TRIBUTARY_RETURN_IF_ERROR(BeginExchange(channel, &out, &in));
  return Poll([channel] { return channel->done->Done(); });
}

absl::Status NcclMesh::MakeCommunicator(Channel* channel) {
  const int peer = channel->peer;
  const bool first = rank() < peer;
  std::string id(kIdBytes, '\0');
  if (first) {
    TRIBUTARY_ASSIGN_OR_RETURN(id, options_.library->MakeId());
    id.resize(kIdBytes);
    TRIBUTARY_RETURN_IF_ERROR(
        control_->Send(peer, kIdTag, id.data(), id.size())->Wait());
  } else {
    TRIBUTARY_RETURN_IF_ERROR(
        control_->Receive(peer, kIdTag, id.data(), id.size())->Wait());
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<NcclCommunicator> communicator,
      options_.library->Begin(id, /*rank=*/first ? 0 : 1,
                              options_.device->bus_id()));
  TRIBUTARY_RETURN_IF_ERROR(AwaitReady(communicator.get()));
  absl::MutexLock lock(&mu_);
  channel->communicator = std::move(communicator);
  return end_;
}

absl::Status NcclMesh::Poll(
    const std::function<absl::StatusOr<bool>()>& ready) {
  const absl::Time deadline = MonotonicNow() + options_.timeout;
  while (MonotonicNow() < deadline) {
    TRIBUTARY_ASSIGN_OR_RETURN(const bool is_ready, ready());
    if (is_ready) return absl::OkStatus();
    const auto over = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return !end_.ok();
    };
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(&over), kAskEvery);
    if (!end_.ok()) return end_;
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "NCCL: no connection within ", absl::FormatDuration(options_.timeout)));
}

absl::Status NcclMesh::BeginExchange(Channel* channel, const DeviceMessage* out,
                                     const DeviceMessage* in) {
  const DeviceMessage nothing;
  if (out == nullptr) out = &nothing;
  if (in == nullptr) in = &nothing;
  if (out->ready != nullptr) channel->stream->Await(*out->ready);
  TRIBUTARY_RETURN_IF_ERROR(channel->communicator->Exchange(
      out->data, out->bytes, in->data, in->bytes, channel->stream->handle()));
  TRIBUTARY_RETURN_IF_ERROR(AwaitReady(channel->communicator.get()));
  channel->stream->Record(channel->done.get());
  return absl::OkStatus();
}

absl::Status NcclMesh::AwaitExchange(Channel* channel) {
  // Abort ends this wait.
  TRIBUTARY_RETURN_IF_ERROR(channel->done->Wait());
  TRIBUTARY_RETURN_IF_ERROR(channel->communicator->Ready().status());
  return end();
}

void NcclMesh::Listen(Channel* channel) {
  absl::Status status;
  for (uint64_t number = 0; status.ok(); ++number) {
    status = ReceiveNotice(channel, number);
  }
  End(Broken(channel->peer, status));
}

absl::Status NcclMesh::ReceiveNotice(Channel* channel, uint64_t number) {
  Notice notice;
  TRIBUTARY_RETURN_IF_ERROR(
      control_
          ->Receive(channel->peer, kNoticeTag | number, &notice, sizeof(notice))
          ->Wait());
  absl::MutexLock lock(&mu_);
  if (notice.kind == Notice::kRound) {
    channel->rounds.push_back(notice);
  } else {
    channel->messages.AddAwaited(notice.tag, notice.bytes);
  }
  return absl::OkStatus();
}

void NcclMesh::Move(Channel* channel) {
  const auto due = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !end_.ok() || !channel->rounds.empty() ||
           channel->messages.has_sendable();
  };
  while (true) {
    absl::StatusOr<DeviceMessage*> message = nullptr;
    {
      absl::MutexLock lock(&mu_, absl::Condition(&due));
      if (!end_.ok()) return;
      message = channel->messages.TakeSendable();
    }
    absl::Status status = message.status();
    if (status.ok()) {
      status = RunRound(channel, *message);
      EndMove(*message, status.ok());
    }
    if (!status.ok()) return End(Broken(channel->peer, status));
  }
}

void NcclMesh::EndMove(DeviceMessage* message, bool done) {
  if (message == nullptr) return;
  absl::MutexLock lock(&mu_);
  message->moving = false;
  message->done = done;
}

absl::StatusOr<DeviceMessage*> NcclMesh::AwaitRound(Channel* channel) {
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !end_.ok() || !channel->rounds.empty();
  };
  absl::MutexLock lock(&mu_, absl::Condition(&settled));
  if (!end_.ok()) return end_;
  const Notice notice = channel->rounds.front();
  channel->rounds.pop_front();
  if (notice.bytes == 0) return nullptr;
  return channel->messages.TakeExpected(notice.tag, notice.bytes);
}

absl::Status NcclMesh::RunRound(Channel* channel, DeviceMessage* message) {
  Notice notice;
  if (message != nullptr) {
    notice = {Notice::kRound, message->tag, message->bytes};
  }
  const std::unique_ptr<Transfer> told = Tell(channel, &notice);
  const absl::StatusOr<DeviceMessage*> incoming = AwaitRound(channel);
  absl::Status status = incoming.status();
  if (status.ok()) status = BeginExchange(channel, message, *incoming);
  if (status.ok()) status = AwaitExchange(channel);
  // The messages' memory must not be in use any more. Synchronize returns the
  // GPU's errors.
  status.Update(channel->stream->Synchronize());
  // The control mesh's error names the lost member.
  const absl::Status heard = told->Wait();
  if (incoming.ok()) EndMove(*incoming, status.ok() && heard.ok());
  TRIBUTARY_RETURN_IF_ERROR(heard);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMesh>> ConnectNcclMesh(
    const NcclMeshOptions& options, std::unique_ptr<PeerMesh> control) {
  TRIBUTARY_RETURN_IF_ERROR(CheckHardwareQueues(
      /*peers=*/control->size() - 1, options.other_streams,
      options.library->hardware_queues()));
  auto mesh = std::make_unique<NcclMesh>(options, std::move(control));
  TRIBUTARY_RETURN_IF_ERROR(mesh->Connect());
  return mesh;
}

absl::Status CheckHardwareQueues(int peers, int other_streams, int queues) {
  const int needed = peers + other_streams;
  if (peers < 2 || needed <= queues) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "NCCL needs ", needed, " hardware queues of the GPU, one for each of ",
      peers, " other workers and ", other_streams,
      " for the compute threads, but CUDA_DEVICE_MAX_CONNECTIONS permits ",
      queues, ": ",
      needed <= kMostQueues ? absl::StrCat("set it to ", kMostQueues, ", ")
                            : "",
      "use fewer --threads, or set exchange.all_reduce.backend to GLOO"));
}

}  // namespace tributary
