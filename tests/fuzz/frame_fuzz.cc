// A message of the exchange, as it comes from a peer. Input: a byte, the length
// of the pieces in which it comes; two bytes, how many elements its payload is
// to have; the message.
#include <algorithm>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/stream/received_floats.h"
#include "common/transport/chunk_codec.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/journal.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/pipeline.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

grpc::ByteBuffer InPieces(absl::string_view bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    const absl::string_view part = bytes.substr(begin, piece);
    slices.emplace_back(part.data(), part.size());
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// Uses the payload as whoever receives it does.
void UsePayload(const ReceivedPayload& payload, int64_t elements,
                size_t message_bytes) {
  TRIBUTARY_FUZZ_CHECK(payload.bytes() >= 0 &&
                       payload.bytes() <= static_cast<int64_t>(message_bytes));
  for (const Encoding encoding :
       {FLOAT32, BFLOAT16, FLOAT16, TOP_K, EIGHT_BIT}) {
    const auto floats = ReceivedFloats::Create(encoding, payload, elements);
    if (!floats.ok()) continue;
    std::vector<float> all(static_cast<size_t>(elements));
    floats->Read(0, elements, all.data());
    floats->Stream(all.data());
    std::vector<float> part(static_cast<size_t>(elements - elements / 3));
    floats->Read(elements / 3, static_cast<int64_t>(part.size()), part.data());
    if (encoding == TOP_K || encoding == EIGHT_BIT) {
      const std::vector<float> from(static_cast<size_t>(elements), 1.0f);
      floats->AddTo(all.data());
      floats->CopyChanged(from.data(), all.data());
    }
  }
}

template <typename Message>
void Run(absl::string_view bytes, size_t piece, int64_t elements) {
  grpc::ByteBuffer buffer = InPieces(bytes, piece);
  Message message;
  ReceivedPayload payload;
  if (!DecodeInPlace(&buffer, &message, &payload).ok()) return;
  UsePayload(payload, elements, bytes.size());
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const size_t piece = std::max<size_t>(1, data[0]);
  const int64_t elements = 1 + (data[1] | data[2] << 8) % 5000;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 3,
                                size - 3);
  tributary::Run<tributary::WorkerMessage>(bytes, piece, elements);
  tributary::Run<tributary::ServerMessage>(bytes, piece, elements);
  tributary::Run<tributary::JournalMessage>(bytes, piece, elements);
  tributary::Run<tributary::StageMessage>(bytes, piece, elements);
  return 0;
}
