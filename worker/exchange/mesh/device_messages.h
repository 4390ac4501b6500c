// The messages in GPU memory between this member of an all-reduce and one other
// member. Internal to NcclMesh.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_DEVICE_MESSAGES_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_DEVICE_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/copies.h"

namespace tributary {

// A message to or from a peer, in GPU memory.
struct DeviceMessage {
  uint64_t tag = 0;
  void* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<Event> ready;  // See DeviceMesh; may be null.
  bool moving = false;           // Its memory is in use.
  bool done = false;
};

// Lists the messages whose transfer has not begun, and the messages that the
// peer waits for. Does not own messages: before a message is destroyed,
// TakeSendable or TakeExpected must have returned it, or Remove must have been
// called. Not thread-safe.
class DeviceMessages {
 public:
  void AddOutgoing(DeviceMessage* message) { outgoing_.push_back(message); }
  void AddExpected(DeviceMessage* message) {
    expected_[message->tag].push_back(message);
  }
  // Records that the peer waits for a message with this tag and size.
  void AddAwaited(uint64_t tag, uint64_t bytes) {
    awaited_.emplace(tag, bytes);
  }
  void Remove(DeviceMessage* message);

  // Returns true if the peer waits for one of the outgoing messages.
  bool has_sendable() const { return Sendable() != nullptr; }
  // Removes and returns the first outgoing message that the peer waits for, and
  // sets its field `moving`. Returns null if there is none, and Internal if the
  // peer waits for a message with the same tag but a different size.
  absl::StatusOr<DeviceMessage*> TakeSendable();
  // Removes and returns the expected message with this tag and size, which the
  // peer is about to send, and sets its field `moving`. Returns Internal if no
  // such message is expected.
  absl::StatusOr<DeviceMessage*> TakeExpected(uint64_t tag, uint64_t bytes);

 private:
  DeviceMessage* Sendable() const;

  std::deque<DeviceMessage*> outgoing_;
  std::map<uint64_t, std::deque<DeviceMessage*>> expected_;  // By tag.
  std::multimap<uint64_t, uint64_t> awaited_;  // Sizes in bytes, by tag.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_DEVICE_MESSAGES_H_
