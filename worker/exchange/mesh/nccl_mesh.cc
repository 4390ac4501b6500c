#include "worker/exchange/mesh/nccl_mesh.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
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
#include "worker/exchange/mesh/hardware_queues.h"

namespace tributary {
namespace {

// Marks tags of headers on the control mesh.
constexpr uint64_t kHeaderTag = uint64_t{1} << 63;
// Tag of the communicator's id, which precedes all messages.
constexpr uint64_t kIdTag = kHeaderTag - 1;
constexpr size_t kIdBytes = 128;
// NCCL reports completion only when polled.
constexpr absl::Duration kAskEvery = absl::Microseconds(50);
// Length of the first messages in both directions. NCCL allocates the memory of
// a connection, and CUDA loads NCCL's kernels, for the first messages.
constexpr size_t kFirstBytes = 1;

// Announces what a member sends in a round, on the control mesh.
struct Header {
  uint64_t tag = 0;
  uint64_t bytes = 0;  // 0: nothing.
};

// The messages between this member and another. They are exchanged in rounds of
// at most one message in each direction, which are one operation of NCCL:
// neither direction waits for the other on the GPU.
struct Channel {
  int peer = 0;
  Device::Memory outgoing{nullptr, nullptr};
  Device::Memory incoming{nullptr, nullptr};
  std::unique_ptr<CopyStream> stream;
  std::unique_ptr<Event> done;
  std::thread listener;  // Receives the peer's headers.
  std::thread mover;     // Runs the rounds.
  std::unique_ptr<NcclCommunicator> communicator;  // Set with the lock held.
  // Guarded by the mesh's lock. Headers of rounds that have not begun here; at
  // most two, because the peer cannot complete a round alone.
  std::deque<Header> headers;
};

class NcclMesh final : public PeerMesh {
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
    if (!Suits(bytes)) {
      return std::make_unique<SmallMessage>(
          this, control_->Send(to, tag, data, bytes));
    }
    auto message = std::make_unique<Message>(this, Key(to, tag),
                                             const_cast<void*>(data), bytes);
    absl::MutexLock lock(&mu_);
    outgoing_[to].push_back(message.get());
    return message;
  }

  std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                    size_t bytes) override {
    if (!Suits(bytes)) {
      return std::make_unique<SmallMessage>(
          this, control_->Receive(from, tag, data, bytes));
    }
    const Key key(from, tag);
    auto message = std::make_unique<Message>(this, key, data, bytes);
    absl::MutexLock lock(&mu_);
    const auto early = early_.find(key);
    if (early == early_.end()) {
      expected_[key].push_back(message.get());
      return message;
    }
    message->Fill(early->second.front());
    early->second.pop_front();
    if (early->second.empty()) early_.erase(early);
    return message;
  }

  void Abort() override {
    End(absl::AbortedError("the all-reduce was cancelled"));
  }

 private:
  using Key = std::pair<int, uint64_t>;  // Peer and tag.

  struct Message final : Transfer {
    Message(NcclMesh* mesh, Key key, void* data, size_t bytes)
        : mesh(mesh), key(key), data(data), bytes(bytes) {}
    ~Message() override { mesh->Remove(this); }
    absl::Status Wait() override { return mesh->Await(this); }
    // Completes a receive. The caller holds the mesh's lock.
    void Fill(const std::string& from) {
      status = CheckSize(from.size(), bytes);
      if (status.ok()) std::memcpy(data, from.data(), bytes);
      done = true;
    }

    NcclMesh* const mesh;
    const Key key;
    void* const data;
    const size_t bytes;
    // Guarded by the mesh's lock.
    bool copied_now = false;  // A channel's thread is using its memory.
    bool done = false;
    absl::Status status;
  };

  // A message sent by the control mesh. If that mesh was aborted, Wait returns
  // the reason.
  struct SmallMessage final : Transfer {
    SmallMessage(NcclMesh* mesh, std::unique_ptr<Transfer> transfer)
        : mesh(mesh), transfer(std::move(transfer)) {}
    absl::Status Wait() override {
      const absl::Status status = transfer->Wait();
      return absl::IsAborted(status) ? mesh->end() : status;
    }

    NcclMesh* const mesh;
    const std::unique_ptr<Transfer> transfer;
  };

  absl::Status end() {
    absl::MutexLock lock(&mu_);
    return end_;
  }

  bool Suits(size_t bytes) const {
    return bytes >= options_.least_bytes && bytes <= options_.most_bytes;
  }

  static absl::Status CheckSize(size_t came, size_t expected) {
    if (came == expected) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("received a message of ", came,
                                            " bytes, expected ", expected));
  }

  absl::Status Broken(int peer, const absl::Status& status) const {
    if (absl::IsAborted(status)) return status;
    return absl::UnavailableError(
        absl::StrCat("member ", peer, " of ", size(),
                     " of the all-reduce: ", status.message()));
  }

  // Records the first error and ends everything.
  void End(const absl::Status& status) {
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

  absl::Status Await(Message* message) {
    const auto over = [this, message]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return message->done || !end_.ok();
    };
    {
      absl::MutexLock lock(&mu_);
      if (AwaitUntil(&mu_, absl::Condition(&over),
                     MonotonicNow() + options_.timeout)) {
        return message->done ? message->status : end_;
      }
    }
    End(Broken(
        message->key.first,
        absl::DeadlineExceededError(absl::StrCat(
            "no progress for ", absl::FormatDuration(options_.timeout)))));
    absl::MutexLock lock(&mu_);
    return end_;
  }

  void Remove(Message* message) {
    const auto idle = [message] { return !message->copied_now; };
    absl::MutexLock lock(&mu_, absl::Condition(&idle));
    auto& outgoing = outgoing_[message->key.first];
    outgoing.erase(std::remove(outgoing.begin(), outgoing.end(), message),
                   outgoing.end());
    const auto expected = expected_.find(message->key);
    if (expected == expected_.end()) return;
    auto& list = expected->second;
    list.erase(std::remove(list.begin(), list.end(), message), list.end());
    if (list.empty()) expected_.erase(expected);
  }

  absl::Status Prepare(Channel* channel);
  absl::Status MakeCommunicator(Channel* channel);
  // Waits until `ready` returns true, within the time limit.
  absl::Status Poll(const std::function<absl::StatusOr<bool>()>& ready)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status AwaitReady(NcclCommunicator* communicator) {
    return Poll([communicator] { return communicator->Ready(); });
  }
  // Begins to exchange the first bytes of both buffers with the peer.
  absl::Status BeginExchange(Channel* channel, size_t out_bytes,
                             size_t in_bytes);
  absl::Status AwaitExchange(Channel* channel);
  void Listen(Channel* channel);
  absl::Status ReceiveHeader(Channel* channel, uint64_t round);
  void Move(Channel* channel);
  // Waits for the peer's header of the next round.
  absl::StatusOr<Header> AwaitHeader(Channel* channel) ABSL_LOCKS_EXCLUDED(mu_);
  // Runs a round in which `message`, unless null, is sent.
  absl::Status RunRound(Channel* channel, uint64_t round, Message* message);
  absl::Status PutAway(Channel* channel, const Header& header);
  // Removes and returns the first message that waits for this key, or null.
  Message* TakeExpected(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const NcclMeshOptions options_;
  const std::unique_ptr<PeerMesh> control_;
  std::map<int, std::unique_ptr<Channel>> channels_;  // By peer.

  absl::Mutex mu_;
  // The error that ended the mesh, or OK.
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  // Messages to send, by peer.
  std::map<int, std::deque<Message*>> outgoing_ ABSL_GUARDED_BY(mu_);
  std::map<Key, std::deque<Message*>> expected_ ABSL_GUARDED_BY(mu_);
  // Messages that arrived before their Receive; bounded by what peers send
  // ahead.
  std::map<Key, std::deque<std::string>> early_ ABSL_GUARDED_BY(mu_);
};

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
  TRIBUTARY_ASSIGN_OR_RETURN(channel->outgoing,
                             options_.device->Allocate(options_.most_bytes));
  TRIBUTARY_ASSIGN_OR_RETURN(channel->incoming,
                             options_.device->Allocate(options_.most_bytes));
  TRIBUTARY_RETURN_IF_ERROR(MakeCommunicator(channel));
  // Detects the loss of the peer from here on.
  channel->listener = std::thread([this, channel] { Listen(channel); });
  TRIBUTARY_RETURN_IF_ERROR(BeginExchange(channel, kFirstBytes, kFirstBytes));
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

absl::Status NcclMesh::BeginExchange(Channel* channel, size_t out_bytes,
                                     size_t in_bytes) {
  TRIBUTARY_RETURN_IF_ERROR(channel->communicator->Exchange(
      channel->outgoing.get(), out_bytes, channel->incoming.get(), in_bytes,
      channel->stream->handle()));
  TRIBUTARY_RETURN_IF_ERROR(AwaitReady(channel->communicator.get()));
  channel->stream->Record(channel->done.get());
  return absl::OkStatus();
}

absl::Status NcclMesh::AwaitExchange(Channel* channel) {
  // Abort ends this wait.
  TRIBUTARY_RETURN_IF_ERROR(channel->done->Wait());
  TRIBUTARY_RETURN_IF_ERROR(channel->communicator->Ready().status());
  absl::MutexLock lock(&mu_);
  return end_;
}

void NcclMesh::Listen(Channel* channel) {
  absl::Status status;
  for (uint64_t round = 0; status.ok(); ++round) {
    status = ReceiveHeader(channel, round);
  }
  End(Broken(channel->peer, status));
}

absl::Status NcclMesh::ReceiveHeader(Channel* channel, uint64_t round) {
  Header header;
  TRIBUTARY_RETURN_IF_ERROR(
      control_
          ->Receive(channel->peer, kHeaderTag | round, &header, sizeof(header))
          ->Wait());
  if (header.bytes > 0 && !Suits(header.bytes)) {
    return absl::InternalError(
        absl::StrCat("received a header for ", header.bytes,
                     " bytes, a size that NCCL is not used for"));
  }
  absl::MutexLock lock(&mu_);
  channel->headers.push_back(header);
  return absl::OkStatus();
}

void NcclMesh::Move(Channel* channel) {
  for (uint64_t round = 0;; ++round) {
    Message* message = nullptr;
    {
      const auto due = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
        const auto outgoing = outgoing_.find(channel->peer);
        return !end_.ok() || !channel->headers.empty() ||
               (outgoing != outgoing_.end() && !outgoing->second.empty());
      };
      absl::MutexLock lock(&mu_, absl::Condition(&due));
      if (!end_.ok()) return;
      std::deque<Message*>& outgoing = outgoing_[channel->peer];
      if (!outgoing.empty()) {
        message = outgoing.front();
        outgoing.pop_front();
        message->copied_now = true;
      }
    }
    const absl::Status status = RunRound(channel, round, message);
    if (message != nullptr) {
      absl::MutexLock lock(&mu_);
      message->copied_now = false;
      message->done = status.ok();
    }
    if (!status.ok()) return End(Broken(channel->peer, status));
  }
}

absl::StatusOr<Header> NcclMesh::AwaitHeader(Channel* channel) {
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !end_.ok() || !channel->headers.empty();
  };
  absl::MutexLock lock(&mu_, absl::Condition(&settled));
  if (!end_.ok()) return end_;
  const Header header = channel->headers.front();
  channel->headers.pop_front();
  return header;
}

absl::Status NcclMesh::RunRound(Channel* channel, uint64_t round,
                                Message* message) {
  const Header header = message == nullptr
                            ? Header()
                            : Header{message->key.second, message->bytes};
  const std::unique_ptr<Transfer> told = control_->Send(
      channel->peer, kHeaderTag | round, &header, sizeof(header));
  Header theirs;
  const auto exchange = [&]() -> absl::Status {
    TRIBUTARY_ASSIGN_OR_RETURN(theirs, AwaitHeader(channel));
    TRIBUTARY_RETURN_IF_ERROR(
        BeginExchange(channel, header.bytes, theirs.bytes));
    return AwaitExchange(channel);
  };
  if (message != nullptr) {
    channel->stream->CopyFromHost(channel->outgoing.get(), message->data,
                                  message->bytes);
  }
  absl::Status status = exchange();
  // The copy must have finished before its memory is released.
  status.Update(channel->stream->Synchronize());
  // The control mesh's error names the lost member.
  TRIBUTARY_RETURN_IF_ERROR(told->Wait());
  TRIBUTARY_RETURN_IF_ERROR(status);
  return theirs.bytes == 0 ? absl::OkStatus() : PutAway(channel, theirs);
}

NcclMesh::Message* NcclMesh::TakeExpected(const Key& key) {
  const auto expected = expected_.find(key);
  if (expected == expected_.end()) return nullptr;
  Message* const message = expected->second.front();
  expected->second.pop_front();
  if (expected->second.empty()) expected_.erase(expected);
  return message;
}

absl::Status NcclMesh::PutAway(Channel* channel, const Header& header) {
  const Key key = {channel->peer, header.tag};
  Message* message = nullptr;
  {
    absl::MutexLock lock(&mu_);
    message = TakeExpected(key);
    if (message != nullptr) message->copied_now = true;
  }
  const auto copy_to = [&](void* to) {
    channel->stream->CopyToHost(to, channel->incoming.get(), header.bytes);
    return channel->stream->Synchronize();
  };
  if (message != nullptr) {
    absl::Status status = CheckSize(header.bytes, message->bytes);
    if (status.ok()) status = copy_to(message->data);
    absl::MutexLock lock(&mu_);
    message->copied_now = false;
    message->status = status;
    message->done = true;
    return absl::OkStatus();
  }
  std::string bytes(header.bytes, '\0');
  TRIBUTARY_RETURN_IF_ERROR(copy_to(bytes.data()));
  absl::MutexLock lock(&mu_);
  message = TakeExpected(key);  // Receive may have been called meanwhile.
  if (message == nullptr) {
    early_[key].push_back(std::move(bytes));
    return absl::OkStatus();
  }
  message->Fill(bytes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectNcclMesh(
    const NcclMeshOptions& options, std::unique_ptr<PeerMesh> control) {
  TRIBUTARY_RETURN_IF_ERROR(CheckHardwareQueues(
      /*peers=*/control->size() - 1, options.other_streams,
      options.library->hardware_queues()));
  auto mesh = std::make_unique<NcclMesh>(options, std::move(control));
  TRIBUTARY_RETURN_IF_ERROR(mesh->Connect());
  return mesh;
}

}  // namespace tributary
