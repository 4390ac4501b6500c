// Reads the weights of another server.
#ifndef TRIBUTARY_SERVER_SERVICE_WEIGHTS_READER_H_
#define TRIBUTARY_SERVER_SERVICE_WEIGHTS_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/parameters/arena_layout.h"
#include "common/stream/message_stream.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// The call that carries the weights to the reader.
using WeightsReadStream = ClientStream<ServerMessage, ReadWeightsRequest>;

// Starts `stream`, and reads the weights of a server with `chunks` chunks at
// `version` into `arena`, which has room for all parameters of the model.
// Blocks until the call has ended. Returns DataLoss if the number of chunks or
// the size of a chunk is wrong. If the call fails, returns the call's error.
// `address` is the address of the server. It is used only in the message of an
// error.
absl::Status ReceiveWeights(std::unique_ptr<WeightsReadStream> stream,
                            const std::string& address, int64_t version,
                            const ArenaLayout& layout, size_t chunks,
                            float* arena);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_WEIGHTS_READER_H_
