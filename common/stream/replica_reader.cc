#include "common/stream/replica_reader.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/stream/read_call.h"
#include "common/stream/replica_rows.h"

namespace tributary {
namespace {

// Writes the arrays of a replica to a snapshot, in the order in which they must
// arrive, and then the rows to tables.
class ReplicaReader {
 public:
  ReplicaReader(const std::string& address, int64_t version,
                const ReplicaTarget& to)
      : address_(address),
        version_(version),
        snapshot_(to.snapshot),
        rows_(to.tables),
        has_rows_(to.tables.empty()) {}

  absl::Status Take(const JournalMessage& message,
                    const ReceivedPayload& payload) {
    return message.has_rows() ? TakeRows(message.rows(), payload)
                              : TakePart(message.part(), payload);
  }

  // Call it when the call has ended without an error.
  absl::Status Finish() {
    if (chunk_ < snapshot_->chunks.size()) {
      return absl::DataLossError(absl::StrCat(address_, ": sent ", chunk_,
                                              " of ", snapshot_->chunks.size(),
                                              " chunks"));
    }
    if (!has_rows_) {
      return absl::DataLossError(absl::StrCat(address_, ": sent no more rows"));
    }
    snapshot_->version = version_;
    return absl::OkStatus();
  }

 private:
  absl::Status TakePart(const JournalPart& part,
                        const ReceivedPayload& payload) {
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

  absl::Status TakeRows(const JournalRows& rows,
                        const ReceivedPayload& payload) {
    const absl::Status taken =
        has_rows_ || !rows.whole()
            ? absl::InvalidArgumentError("rows that were not requested")
            : rows_.Take(rows, payload);
    if (absl::IsInvalidArgument(taken) || absl::IsFailedPrecondition(taken)) {
      return absl::DataLossError(absl::StrCat(address_, ": ", taken.message()));
    }
    has_rows_ = taken.ok() && rows_.complete();
    return taken;
  }

  const std::string& address_;
  const int64_t version_;
  Snapshot* const snapshot_;
  ReplicaRowsReader rows_;
  bool has_rows_;  // True if no more rows are expected.
  // The next array to receive.
  size_t chunk_ = 0;
  size_t array_ = 0;
};

}  // namespace

absl::Status ReceiveReplica(std::unique_ptr<ReplicaReadStream> stream,
                            const std::string& address,
                            const ReadJournalRequest& request,
                            const ReplicaTarget& to) {
  ReplicaReader reader(address, request.version(), to);
  ReadJournalRequest sent = request;
  sent.set_tables(!to.tables.empty());
  ReadCall<JournalMessage, ReadJournalRequest> call(
      std::move(stream),
      [&](const JournalMessage& message, const ReceivedPayload& payload) {
        return reader.Take(message, payload);
      });
  TRIBUTARY_RETURN_IF_ERROR(call.Run(sent, address));
  return reader.Finish();
}

}  // namespace tributary
