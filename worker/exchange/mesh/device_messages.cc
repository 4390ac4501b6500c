#include "worker/exchange/mesh/device_messages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

void RemoveFrom(std::deque<DeviceMessage*>* messages, DeviceMessage* message) {
  messages->erase(std::remove(messages->begin(), messages->end(), message),
                  messages->end());
}

}  // namespace

void DeviceMessages::Remove(DeviceMessage* message) {
  RemoveFrom(&outgoing_, message);
  const auto expected = expected_.find(message->tag);
  if (expected == expected_.end()) return;
  RemoveFrom(&expected->second, message);
  if (expected->second.empty()) expected_.erase(expected);
}

DeviceMessage* DeviceMessages::Sendable() const {
  for (DeviceMessage* const message : outgoing_) {
    if (awaited_.count(message->tag) > 0) return message;
  }
  return nullptr;
}

absl::StatusOr<DeviceMessage*> DeviceMessages::TakeSendable() {
  DeviceMessage* const message = Sendable();
  if (message == nullptr) return nullptr;
  const auto awaited = awaited_.find(message->tag);
  if (awaited->second != message->bytes) {
    return absl::InternalError(
        absl::StrCat("expects a message of ", awaited->second,
                     " bytes, but the message has ", message->bytes));
  }
  awaited_.erase(awaited);
  RemoveFrom(&outgoing_, message);
  message->moving = true;
  return message;
}

absl::StatusOr<DeviceMessage*> DeviceMessages::TakeExpected(uint64_t tag,
                                                            uint64_t bytes) {
  const auto expected = expected_.find(tag);
  if (expected == expected_.end() || expected->second.front()->bytes != bytes) {
    return absl::InternalError(absl::StrCat("sends a message of ", bytes,
                                            " bytes that is not expected"));
  }
  DeviceMessage* const message = expected->second.front();
  expected->second.pop_front();
  if (expected->second.empty()) expected_.erase(expected);
  message->moving = true;
  return message;
}

}  // namespace tributary
