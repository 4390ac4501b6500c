#include "server/service/weights_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

class WeightsReader final
    : private ClientSession<ServerMessage, ReadWeightsRequest> {
 public:
  // `layout` must outlive this object.
  WeightsReader(std::unique_ptr<WeightsReadStream> stream, std::string address,
                const ArenaLayout& layout, float* arena)
      : address_(std::move(address)),
        layout_(layout),
        arena_(arena),
        stream_(std::move(stream)) {}

  absl::Status Read(int64_t version, size_t chunks) {
    ReadWeightsRequest request;
    request.set_version(version);
    stream_->Start(this);
    stream_->Send(request);
    stream_->HalfClose();
    const absl::Status ended = stream_->AwaitDone();
    TRIBUTARY_RETURN_IF_ERROR(error_);
    if (!ended.ok()) {
      return absl::Status(ended.code(),
                          absl::StrCat(address_, ": ", ended.message()));
    }
    if (read_ == chunks) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        address_, " sent ", read_, " of its ", Counted(chunks, "chunk")));
  }

 private:
  bool OnMessage(const ServerMessage& message,
                 ReceivedPayload payload) override {
    error_ = Take(message.weights().chunk(), payload);
    if (error_.ok()) return true;
    stream_->Cancel();
    return false;
  }

  void OnGone(const absl::Status&) override {}

  // Writes a chunk to the arena.
  absl::Status Take(int chunk, const ReceivedPayload& payload) {
    if (chunk < 0 || chunk >= layout_.chunk_count() ||
        payload.bytes() != layout_.ChunkSize(chunk) * int64_t{sizeof(float)}) {
      return absl::DataLossError(absl::StrCat(
          address_, ": chunk ", chunk, " of ", Counted(payload.bytes(), "byte"),
          " does not fit the model"));
    }
    payload.Copy(0, payload.bytes(), arena_ + layout_.ChunkBegin(chunk));
    ++read_;
    return absl::OkStatus();
  }

  const std::string address_;
  const ArenaLayout& layout_;
  float* const arena_;
  // The following members are accessed only in calls that the stream makes, and
  // after AwaitDone. The number of chunks received, and the first error.
  size_t read_ = 0;
  absl::Status error_;
  // Destroyed first, because it may still call the session until then.
  const std::unique_ptr<WeightsReadStream> stream_;
};

}  // namespace

absl::Status ReceiveWeights(std::unique_ptr<WeightsReadStream> stream,
                            const std::string& address, int64_t version,
                            const ArenaLayout& layout, size_t chunks,
                            float* arena) {
  return WeightsReader(std::move(stream), address, layout, arena)
      .Read(version, chunks);
}

}  // namespace tributary
