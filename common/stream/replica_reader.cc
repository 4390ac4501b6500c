#include "common/stream/replica_reader.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/stream/read_call.h"

namespace tributary {
namespace {

// Writes the arrays of a replica to a snapshot, in the order in which they must
// arrive.
class ReplicaReader {
 public:
  ReplicaReader(const std::string& address, int64_t version, Snapshot* snapshot)
      : address_(address), version_(version), snapshot_(snapshot) {}

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

  // Call it when the call has ended without an error.
  absl::Status Finish() {
    if (chunk_ < snapshot_->chunks.size()) {
      return absl::DataLossError(absl::StrCat(address_, ": sent ", chunk_,
                                              " of ", snapshot_->chunks.size(),
                                              " chunks"));
    }
    snapshot_->version = version_;
    return absl::OkStatus();
  }

 private:
  const std::string& address_;
  const int64_t version_;
  Snapshot* const snapshot_;
  // The next array to receive.
  size_t chunk_ = 0;
  size_t array_ = 0;
};

}  // namespace

absl::Status ReceiveReplica(std::unique_ptr<ReplicaReadStream> stream,
                            const std::string& address,
                            const ReadJournalRequest& request,
                            Snapshot* snapshot) {
  ReplicaReader reader(address, request.version(), snapshot);
  ReadCall<JournalMessage, ReadJournalRequest> call(
      std::move(stream),
      [&](const JournalMessage& message, const ReceivedPayload& payload) {
        return reader.Take(message.part(), payload);
      });
  TRIBUTARY_RETURN_IF_ERROR(call.Run(request, address));
  return reader.Finish();
}

}  // namespace tributary
