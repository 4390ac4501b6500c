#include "server/service/weights_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/stream/read_call.h"
#include "common/text/counted.h"

namespace tributary {

absl::Status ReceiveWeights(std::unique_ptr<WeightsReadStream> stream,
                            const std::string& address, int64_t version,
                            const ArenaLayout& layout, size_t chunks,
                            float* arena) {
  size_t read = 0;
  ReadCall<ServerMessage, ReadWeightsRequest> call(
      std::move(stream),
      [&](const ServerMessage& message, const ReceivedPayload& payload) {
        const int chunk = message.weights().chunk();
        if (chunk < 0 || chunk >= layout.chunk_count() ||
            payload.bytes() !=
                layout.ChunkSize(chunk) * int64_t{sizeof(float)}) {
          return absl::DataLossError(absl::StrCat(
              address, ": chunk ", chunk, " of ",
              Counted(payload.bytes(), "byte"), " does not fit the model"));
        }
        payload.Copy(0, payload.bytes(), arena + layout.ChunkBegin(chunk));
        ++read;
        return absl::OkStatus();
      });
  ReadWeightsRequest request;
  request.set_version(version);
  TRIBUTARY_RETURN_IF_ERROR(call.Run(request, address));
  if (read == chunks) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(address, " sent ", read, " of its ",
                                          Counted(chunks, "chunk")));
}

}  // namespace tributary
