#include "common/stream/replica_reader.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

class ReplicaReader final
    : private ClientSession<JournalMessage, ReadJournalRequest> {
 public:
  ReplicaReader(std::unique_ptr<ReplicaReadStream> stream, std::string address,
                Snapshot* snapshot)
      : address_(std::move(address)),
        snapshot_(snapshot),
        stream_(std::move(stream)) {}

  absl::Status Read(const ReadJournalRequest& request) {
    version_ = request.version();
    stream_->Start(this);
    stream_->Send(request);
    stream_->HalfClose();
    const absl::Status ended = stream_->AwaitDone();
    TRIBUTARY_RETURN_IF_ERROR(error_);
    if (!ended.ok()) {
      return absl::Status(ended.code(),
                          absl::StrCat(address_, ": ", ended.message()));
    }
    if (chunk_ < snapshot_->chunks.size()) {
      return absl::DataLossError(absl::StrCat(address_, ": sent ", chunk_,
                                              " of ", snapshot_->chunks.size(),
                                              " chunks"));
    }
    snapshot_->version = version_;
    return absl::OkStatus();
  }

 private:
  bool OnMessage(const JournalMessage& message,
                 ReceivedPayload payload) override {
    error_ = Take(message.part(), payload);
    if (error_.ok()) return true;
    stream_->Cancel();
    return false;
  }

  void OnGone(const absl::Status&) override {}

  // Writes the next array of the snapshot.
  absl::Status Take(const JournalPart& part, const ReceivedPayload& payload) {
    if (chunk_ == snapshot_->chunks.size() ||
        part.chunk() != snapshot_->chunks[chunk_].number ||
        part.array() != static_cast<int>(array_) ||
        part.version() != version_ ||
        payload.bytes() !=
            snapshot_->chunks[chunk_].elements * int64_t{sizeof(float)}) {
      return absl::DataLossError(
          absl::StrCat(address_, ": array ", part.array(), " of chunk ",
                       part.chunk(), " is out of order or has the wrong size"));
    }
    const Snapshot::Chunk& chunk = snapshot_->chunks[chunk_];
    const Buffer& to = array_ == 0 ? chunk.values : chunk.slots[array_ - 1];
    payload.Copy(0, payload.bytes(), to.get());
    if (++array_ > chunk.slots.size()) {
      array_ = 0;
      ++chunk_;
    }
    return absl::OkStatus();
  }

  const std::string address_;
  Snapshot* const snapshot_;
  int64_t version_ = 0;
  // The following members are accessed only in calls that the stream makes, and
  // after AwaitDone. The next array to receive, and the first error.
  size_t chunk_ = 0;
  size_t array_ = 0;
  absl::Status error_;
  // Destroyed first, because it may still call the session until then.
  const std::unique_ptr<ReplicaReadStream> stream_;
};

}  // namespace

absl::Status ReceiveReplica(std::unique_ptr<ReplicaReadStream> stream,
                            const std::string& address,
                            const ReadJournalRequest& request,
                            Snapshot* snapshot) {
  return ReplicaReader(std::move(stream), address, snapshot).Read(request);
}

}  // namespace tributary
