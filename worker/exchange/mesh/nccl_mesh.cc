#include "worker/exchange/mesh/nccl_mesh.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

// Marks tags of headers on the control mesh.
constexpr uint64_t kHeaderTag = uint64_t{1} << 63;
// Tag of the communicator's id, which precedes all messages.
constexpr uint64_t kIdTag = kHeaderTag - 1;
constexpr size_t kIdBytes = 128;
// NCCL reports completion only when polled.
constexpr absl::Duration kAskEvery = absl::Microseconds(50);

// Sent on the control mesh before each message of NCCL.
struct Header {
  uint64_t tag = 0;
  uint64_t bytes = 0;
};

// Messages in one direction between this member and another, sent one after the
// other by a dedicated thread.
struct Channel {
  int peer = 0;
  Device::Memory staging{nullptr, nullptr};
  std::unique_ptr<NcclCommunicator> communicator;
  std::unique_ptr<CopyStream> stream;
  std::unique_ptr<Event> done;
  uint64_t messages = 0;  // Number of messages so far.
  std::thread thread;
};

class NcclMesh final : public PeerMesh {
 public:
  NcclMesh(const NcclMeshOptions& options, std::unique_ptr<PeerMesh> control)
      : options_(options), control_(std::move(control)) {}
  ~NcclMesh() override {
    Abort();
    for (auto* channels : {&out_, &in_}) {
      for (const auto& [peer, channel] : *channels) {
        if (channel->thread.joinable()) channel->thread.join();
      }
    }
  }

  // Creates all channels. For each pair of members, both create their channels
  // at the same time.
  absl::Status Connect();

  int rank() const override { return control_->rank(); }
  int size() const override { return control_->size(); }

  std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                 size_t bytes) override {
    if (!Suits(bytes)) {
      return std::make_unique<SmallMessage>(
          this, control_->Send(to, tag, data, bytes));
    }
    auto message =
        std::make_unique<Message>(this, to, const_cast<void*>(data), bytes);
    absl::MutexLock lock(&mu_);
    message->tag = tag;
    outgoing_[to].push_back(message.get());
    return message;
  }

  std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                    size_t bytes) override {
    if (!Suits(bytes)) {
      return std::make_unique<SmallMessage>(
          this, control_->Receive(from, tag, data, bytes));
    }
    auto message = std::make_unique<Message>(this, from, data, bytes);
    message->tag = tag;
    absl::MutexLock lock(&mu_);
    const auto early = early_.find({from, tag});
    if (early == early_.end()) {
      expected_[{from, tag}].push_back(message.get());
      return message;
    }
    const std::string& came = early->second.front();
    message->status = CheckSize(came.size(), bytes);
    if (message->status.ok()) std::memcpy(data, came.data(), bytes);
    message->done = true;
    early->second.pop_front();
    if (early->second.empty()) early_.erase(early);
    return message;
  }

  void Abort() override {
    End(absl::AbortedError("the all-reduce was cancelled"));
  }

 private:
  struct Message final : Transfer {
    Message(NcclMesh* mesh, int peer, void* data, size_t bytes)
        : mesh(mesh), peer(peer), data(data), bytes(bytes) {}
    ~Message() override { mesh->Remove(this); }
    absl::Status Wait() override { return mesh->Await(this); }

    NcclMesh* const mesh;
    const int peer;
    void* const data;
    const size_t bytes;
    // Guarded by the mesh's lock.
    uint64_t tag = 0;
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
    {
      absl::MutexLock lock(&mu_);
      if (!end_.ok()) return;
      end_ = status;
    }
    control_->Abort();
    for (auto* channels : {&out_, &in_}) {
      for (const auto& [peer, channel] : *channels) {
        if (channel->communicator != nullptr) channel->communicator->Abort();
      }
    }
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
    End(Broken(message->peer, absl::DeadlineExceededError(absl::StrCat(
                                  "no progress for ",
                                  absl::FormatDuration(options_.timeout)))));
    absl::MutexLock lock(&mu_);
    return end_;
  }

  void Remove(Message* message) {
    const auto idle = [message] { return !message->copied_now; };
    absl::MutexLock lock(&mu_, absl::Condition(&idle));
    auto& outgoing = outgoing_[message->peer];
    outgoing.erase(std::remove(outgoing.begin(), outgoing.end(), message),
                   outgoing.end());
    const auto expected = expected_.find({message->peer, message->tag});
    if (expected == expected_.end()) return;
    auto& list = expected->second;
    list.erase(std::remove(list.begin(), list.end(), message), list.end());
    if (list.empty()) expected_.erase(expected);
  }

  absl::StatusOr<std::unique_ptr<Channel>> MakeChannel(int peer, bool sends);
  // Waits until the communicator's last operation is queued.
  absl::Status AwaitReady(NcclCommunicator* communicator)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until the GPU has completed the communicator's operations.
  absl::Status AwaitDone(Channel* channel);
  void RunOut(Channel* channel);
  void RunIn(Channel* channel);
  absl::Status SendNext(Channel* channel, Message* message);
  absl::Status ReceiveNext(Channel* channel);
  absl::Status PutAway(Channel* channel, const Header& header);

  const NcclMeshOptions options_;
  const std::unique_ptr<PeerMesh> control_;
  // By peer.
  std::map<int, std::unique_ptr<Channel>> out_;
  std::map<int, std::unique_ptr<Channel>> in_;

  absl::Mutex mu_;
  // The error that ended the mesh, or OK.
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  // Messages to send, by peer.
  std::map<int, std::deque<Message*>> outgoing_ ABSL_GUARDED_BY(mu_);
  using Key = std::pair<int, uint64_t>;  // Peer and tag.
  std::map<Key, std::deque<Message*>> expected_ ABSL_GUARDED_BY(mu_);
  // Messages that arrived before their Receive; bounded by what peers send
  // ahead.
  std::map<Key, std::deque<std::string>> early_ ABSL_GUARDED_BY(mu_);
};

absl::Status NcclMesh::Connect() {
  // All members use the same order, so that none wait for one another in a
  // cycle.
  for (int first = 0; first < size(); ++first) {
    for (int second = first + 1; second < size(); ++second) {
      if (first != rank() && second != rank()) continue;
      const bool is_first = first == rank();
      const int peer = is_first ? second : first;
      for (const bool forth : {true, false}) {
        const bool sends = forth == is_first;
        absl::StatusOr<std::unique_ptr<Channel>> channel =
            MakeChannel(peer, sends);
        if (!channel.ok()) return Broken(peer, channel.status());
        (sends ? out_ : in_)[peer] = *std::move(channel);
      }
    }
  }
  for (const auto& [peer, channel] : out_) {
    channel->thread = std::thread([this, c = channel.get()] { RunOut(c); });
  }
  for (const auto& [peer, channel] : in_) {
    channel->thread = std::thread([this, c = channel.get()] { RunIn(c); });
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Channel>> NcclMesh::MakeChannel(int peer,
                                                               bool sends) {
  auto channel = std::make_unique<Channel>();
  channel->peer = peer;
  TRIBUTARY_ASSIGN_OR_RETURN(channel->stream,
                             options_.device->copies()->CreateStream());
  TRIBUTARY_ASSIGN_OR_RETURN(channel->done,
                             options_.device->copies()->CreateEvent());
  TRIBUTARY_ASSIGN_OR_RETURN(channel->staging,
                             options_.device->Allocate(options_.most_bytes));
  std::string id(kIdBytes, '\0');
  if (sends) {
    TRIBUTARY_ASSIGN_OR_RETURN(id, options_.library->MakeId());
    id.resize(kIdBytes);
    TRIBUTARY_RETURN_IF_ERROR(
        control_->Send(peer, kIdTag, id.data(), id.size())->Wait());
  } else {
    TRIBUTARY_RETURN_IF_ERROR(
        control_->Receive(peer, kIdTag, id.data(), id.size())->Wait());
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      channel->communicator,
      options_.library->Begin(id, /*rank=*/sends ? 0 : 1,
                              options_.device->bus_id()));
  TRIBUTARY_RETURN_IF_ERROR(AwaitReady(channel->communicator.get()));
  return channel;
}

absl::Status NcclMesh::AwaitReady(NcclCommunicator* communicator) {
  const absl::Time deadline = MonotonicNow() + options_.timeout;
  while (MonotonicNow() < deadline) {
    TRIBUTARY_ASSIGN_OR_RETURN(const bool ready, communicator->Ready());
    if (ready) return absl::OkStatus();
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

absl::Status NcclMesh::AwaitDone(Channel* channel) {
  TRIBUTARY_RETURN_IF_ERROR(AwaitReady(channel->communicator.get()));
  channel->stream->Record(channel->done.get());
  // Abort ends this wait.
  TRIBUTARY_RETURN_IF_ERROR(channel->done->Wait());
  TRIBUTARY_RETURN_IF_ERROR(channel->communicator->Ready().status());
  absl::MutexLock lock(&mu_);
  return end_;
}

void NcclMesh::RunOut(Channel* channel) {
  while (true) {
    Message* message = nullptr;
    {
      const auto something = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
        return !end_.ok() || !outgoing_[channel->peer].empty();
      };
      absl::MutexLock lock(&mu_, absl::Condition(&something));
      if (!end_.ok()) return;
      message = outgoing_[channel->peer].front();
      outgoing_[channel->peer].pop_front();
      message->copied_now = true;
    }
    const absl::Status status = SendNext(channel, message);
    {
      absl::MutexLock lock(&mu_);
      message->copied_now = false;
      message->done = status.ok();
    }
    if (!status.ok()) return End(Broken(channel->peer, status));
  }
}

absl::Status NcclMesh::SendNext(Channel* channel, Message* message) {
  const Header header = {message->tag, message->bytes};
  const std::unique_ptr<Transfer> told = control_->Send(
      channel->peer, kHeaderTag | channel->messages++, &header, sizeof(header));
  channel->stream->CopyFromHost(channel->staging.get(), message->data,
                                message->bytes);
  const auto send = [&]() -> absl::Status {
    TRIBUTARY_RETURN_IF_ERROR(channel->communicator->Send(
        channel->staging.get(), message->bytes, channel->stream->handle()));
    return AwaitDone(channel);
  };
  absl::Status sent = send();
  // The copy must have finished before its memory is released.
  sent.Update(channel->stream->Synchronize());
  const absl::Status word = told->Wait();
  // The control mesh's error names the lost member.
  return word.ok() ? sent : word;
}

void NcclMesh::RunIn(Channel* channel) {
  absl::Status status;
  while (status.ok()) status = ReceiveNext(channel);
  End(Broken(channel->peer, status));
}

absl::Status NcclMesh::ReceiveNext(Channel* channel) {
  Header header;
  TRIBUTARY_RETURN_IF_ERROR(control_
                                ->Receive(channel->peer,
                                          kHeaderTag | channel->messages++,
                                          &header, sizeof(header))
                                ->Wait());
  if (!Suits(header.bytes)) {
    return absl::InternalError(
        absl::StrCat("received a header for ", header.bytes,
                     " bytes, a size that NCCL is not used for"));
  }
  TRIBUTARY_RETURN_IF_ERROR(channel->communicator->Receive(
      channel->staging.get(), header.bytes, channel->stream->handle()));
  TRIBUTARY_RETURN_IF_ERROR(AwaitDone(channel));
  return PutAway(channel, header);
}

absl::Status NcclMesh::PutAway(Channel* channel, const Header& header) {
  const Key key = {channel->peer, header.tag};
  Message* message = nullptr;
  {
    absl::MutexLock lock(&mu_);
    const auto expected = expected_.find(key);
    if (expected != expected_.end()) {
      message = expected->second.front();
      expected->second.pop_front();
      if (expected->second.empty()) expected_.erase(expected);
      message->copied_now = true;
    }
  }
  const auto copy_to = [&](void* to) {
    channel->stream->CopyToHost(to, channel->staging.get(), header.bytes);
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
  // Receive may have been called meanwhile.
  absl::MutexLock lock(&mu_);
  const auto expected = expected_.find(key);
  if (expected == expected_.end()) {
    early_[key].push_back(std::move(bytes));
    return absl::OkStatus();
  }
  message = expected->second.front();
  expected->second.pop_front();
  if (expected->second.empty()) expected_.erase(expected);
  message->status = CheckSize(bytes.size(), message->bytes);
  if (message->status.ok()) {
    std::memcpy(message->data, bytes.data(), bytes.size());
  }
  message->done = true;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectNcclMesh(
    const NcclMeshOptions& options, std::unique_ptr<PeerMesh> control) {
  auto mesh = std::make_unique<NcclMesh>(options, std::move(control));
  TRIBUTARY_RETURN_IF_ERROR(mesh->Connect());
  return mesh;
}

}  // namespace tributary
