#include "server/replication/replica_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

int64_t Bytes(int64_t elements) { return elements * int64_t{sizeof(float)}; }

}  // namespace

absl::Status ReplicasNotServed() {
  return absl::UnavailableError(
      "this server does not keep replicas for this kind of process, or not "
      "yet");
}

ReplicaSession::ReplicaSession(int shard, int64_t attempt, ReplicaStore* memory,
                               ServerStream<JournalAnswer>* stream)
    : shard_(shard), attempt_(attempt), memory_(memory), stream_(stream) {}

void ReplicaSession::OnMessage(const JournalMessage& message,
                               ReceivedPayload payload) {
  const absl::Status status = Handle(message, payload);
  if (!status.ok()) stream_->Close(status);
}

absl::Status ReplicaSession::Handle(const JournalMessage& message,
                                    const ReceivedPayload& payload) {
  if (message.has_hello()) return OnHello(message.hello());
  if (!message.has_part() && !message.has_rows()) {
    return absl::InvalidArgumentError("a message of an unknown kind");
  }
  if (from_ < 0) {
    return absl::FailedPreconditionError(
        "the first message must be JournalHello");
  }
  return message.has_rows() ? OnRows(message.rows(), payload)
                            : OnPart(message.part(), payload);
}

absl::Status ReplicaSession::OnHello(const JournalHello& hello) {
  if (from_ >= 0) {
    return absl::FailedPreconditionError("a second JournalHello");
  }
  if (attempt_ == 0) return ReplicasNotServed();
  TRIBUTARY_RETURN_IF_ERROR(memory_->CheckScope(hello.scope()));
  if (attempt_ != hello.attempt()) {
    return absl::AbortedError(absl::StrCat(
        "server ", hello.shard(), " belongs to attempt ", hello.attempt(),
        " of the job, server ", shard_, " to ", attempt_, ": join again"));
  }
  const int servers = hello.scope().servers();
  if (hello.shard() < 0 || hello.shard() >= servers ||
      ReplicaHolderOf(hello.shard(), servers) != shard_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "server ", shard_, " holds no replica of server ", hello.shard()));
  }
  from_ = hello.shard();
  return absl::OkStatus();
}

absl::Status ReplicaSession::OnPart(const JournalPart& part,
                                    const ReceivedPayload& payload) {
  TRIBUTARY_ASSIGN_OR_RETURN(const ReplicaStore::CopyShape shape,
                             memory_->ShapeOf(from_, part.chunk()));
  const int expected =
      static_cast<int>(copy_.slots.size()) + (copy_.values == nullptr ? 0 : 1);
  if (part.array() != expected ||
      (expected > 0 &&
       (part.chunk() != copy_.number || part.version() != version_))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "array ", part.array(), " of chunk ", part.chunk(), ", version ",
        part.version(), " is not the one that comes next"));
  }
  if (payload.bytes() != Bytes(shape.elements) || part.version() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a copy of chunk ", part.chunk(), ", version ",
                     part.version(), ", has ", Counted(payload.bytes(), "byte"),
                     " instead of ", Bytes(shape.elements)));
  }
  if (buffers_ == nullptr) {
    buffers_ = std::make_unique<BufferPool>(shape.most_elements);
  }
  Buffer values = buffers_->Take();
  payload.Copy(0, payload.bytes(), values.get());
  if (expected == 0) {
    copy_.number = part.chunk();
    copy_.elements = shape.elements;
    copy_.values = std::move(values);
    version_ = part.version();
  } else {
    copy_.slots.push_back(std::move(values));
  }
  if (expected + 1 < shape.arrays) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("J1"));
  TRIBUTARY_RETURN_IF_ERROR(
      memory_->Add(from_, version_, std::exchange(copy_, Snapshot::Chunk())));
  return Kept();
}

absl::Status ReplicaSession::OnRows(const JournalRows& rows,
                                    const ReceivedPayload& payload) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("J1"));
  TRIBUTARY_RETURN_IF_ERROR(memory_->tables().Take(from_, rows, payload));
  return Kept();
}

absl::Status ReplicaSession::Kept() {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("J2"));
  {
    absl::MutexLock lock(&kept_mu_);
    ++kept_;
  }
  stream_->Wake();
  return absl::OkStatus();
}

bool ReplicaSession::TakeMore(JournalAnswer* answer) {
  absl::MutexLock lock(&kept_mu_);
  if (kept_ == told_) return false;
  told_ = kept_;
  answer->set_kept(kept_);
  return true;
}

}  // namespace tributary
