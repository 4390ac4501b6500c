// The payload of a received message, in the memory in which it arrived.
#ifndef TRIBUTARY_COMMON_STREAM_RECEIVED_PAYLOAD_H_
#define TRIBUTARY_COMMON_STREAM_RECEIVED_PAYLOAD_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tributary {

// Refers to bytes that may lie in several pieces, and keeps them alive.
// Immutable.
class ReceivedPayload {
 public:
  struct Piece {
    const char* data = nullptr;
    // Offset in the payload, in bytes, at which this piece ends.
    int64_t end = 0;
  };

  // Creates an empty payload.
  ReceivedPayload() = default;
  // Creates a payload of `bytes` bytes at `data`. The bytes must stay unchanged
  // until `owner` is released.
  ReceivedPayload(const void* data, int64_t bytes,
                  std::shared_ptr<const void> owner)
      : owner_(std::move(owner)),
        whole_{static_cast<const char*>(data), bytes} {}
  // Creates a payload that consists of `pieces`, in their order. Their bytes
  // must stay unchanged until `owner` is released.
  ReceivedPayload(std::vector<Piece> pieces, std::shared_ptr<const void> owner);

  int64_t bytes() const { return whole_.end; }
  // Returns the bytes from `begin` to the end.
  ReceivedPayload From(int64_t begin) const;
  // Copies bytes [begin, begin + count) to `to`.
  void Copy(int64_t begin, int64_t count, void* to) const;
  // Returns a pointer to bytes [begin, begin + count), which may be unaligned:
  // a pointer into the payload if they are in one piece; otherwise `scratch`,
  // to which they are copied. `scratch` must have room for `count` bytes.
  const char* View(int64_t begin, int64_t count, char* scratch) const;

 private:
  // Returns the piece that contains byte `position` and sets `*begin` to the
  // offset at which the piece begins. Requires that `pieces_` is not empty.
  std::vector<Piece>::const_iterator Find(int64_t position,
                                          int64_t* begin) const;

  std::shared_ptr<const void> owner_;
  // The payload, if it is in one piece. Otherwise `whole_.data` is null, and
  // `pieces_` holds the pieces. `whole_.end` is always the payload's size.
  Piece whole_;
  std::vector<Piece> pieces_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_RECEIVED_PAYLOAD_H_
