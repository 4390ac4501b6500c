// An array of floats, and in which memory it is.
#ifndef TRIBUTARY_COMMON_PARAMETERS_MEMORY_VIEW_H_
#define TRIBUTARY_COMMON_PARAMETERS_MEMORY_VIEW_H_

#include <cstdint>
#include <memory>

namespace tributary {

// Where memory is, which decides who can read it and how.
enum class MemoryPlace {
  kHost,
  kPinned,      // Host memory that a GPU copies to and from directly.
  kShared,      // Host memory that other processes have mapped.
  kDevice,      // Memory of this process's GPU; the host cannot access it.
  kPeerDevice,  // GPU memory that another process has allocated.
};

// A part of an array, without its length. Keeps the memory alive. The interface
// that passes a view states who may write to the memory, and when.
struct MemoryView {
  float* values = nullptr;
  // Null if whoever passes the view keeps the memory alive.
  std::shared_ptr<const void> owner = nullptr;
  MemoryPlace place = MemoryPlace::kHost;

  bool empty() const { return values == nullptr; }
  bool on_host() const { return place <= MemoryPlace::kShared; }
  // Returns the view that begins `offset` elements later.
  MemoryView From(int64_t offset) const {
    return {values + offset, owner, place};
  }
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_MEMORY_VIEW_H_
