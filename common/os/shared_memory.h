// Memory shared by processes of one user on one host. Gradients and weights
// pass between workers and servers through it without being copied to a socket.
#ifndef TRIBUTARY_COMMON_OS_SHARED_MEMORY_H_
#define TRIBUTARY_COMMON_OS_SHARED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Returns an identifier of this host and network namespace. Processes with
// equal identifiers can reach each other through abstract Unix sockets and,
// unless MappedMemory::Map returns an error, through shared memory.
std::string HostIdentity();

// The page size in bytes. Offsets and sizes that are passed to the operating
// system are multiples of it.
inline constexpr int64_t kPageBytes = 4096;
constexpr int64_t RoundUpToPage(int64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Memory of this process that other processes of the same user may map
// read-only. It has no name in any file system, exists until the last process
// unmaps it, and occupies only the pages that were written. Initially zero.
class SharedMemory {
 public:
  // Creates `bytes` bytes of memory, rounded up to whole pages. Returns
  // Unavailable if the kernel does not provide such memory.
  static absl::StatusOr<std::shared_ptr<SharedMemory>> Create(int64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // The message with which other processes can map this memory; see
  // MappedMemory::Map.
  const SharedMemoryOffer& offer() const { return offer_; }

 private:
  SharedMemory() = default;

  int descriptor_ = -1;
  // One page with the token that MappedMemory::Map verifies, then the data.
  char* begin_ = nullptr;
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  SharedMemoryOffer offer_;
};

// The SharedMemory of another process, mapped into this one. It stays readable
// after that process has ended.
class MappedMemory {
 public:
  // Maps the memory that `offer` describes. Returns FailedPrecondition, with
  // the reason, if that is impossible: the peer is on a different host, in a
  // different container or of a different user, or the offer is wrong. Verifies
  // the owner, the size, a seal against shrinking (so that reads cannot fault)
  // and a random token in the memory itself.
  static absl::StatusOr<std::shared_ptr<const MappedMemory>> Map(
      const SharedMemoryOffer& offer);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  const char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  // Maps `bytes` bytes of this memory, starting at `offset`, at the address
  // `to`, and replaces the existing mapping of that address range. All three
  // arguments must be multiples of kPageBytes. The mapping may outlive this
  // object. Returns FailedPrecondition if the kernel cannot map the memory
  // there.
  absl::Status MapAt(void* to, int64_t offset, int64_t bytes) const;

 private:
  MappedMemory() = default;

  int descriptor_ = -1;
  const char* begin_ = nullptr;
  const char* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Zeroed private memory in whole pages, any of which MappedMemory::MapAt may
// replace by shared memory.
class PrivatePages {
 public:
  // kHuge prefers huge pages. Of kSmall, DropPages frees any page at once.
  enum class PageSize { kHuge, kSmall };

  // Allocates `bytes` bytes, rounded up to whole pages. Throws std::bad_alloc
  // if this fails.
  explicit PrivatePages(int64_t bytes, PageSize size = PageSize::kHuge);
  ~PrivatePages();
  PrivatePages(const PrivatePages&) = delete;
  PrivatePages& operator=(const PrivatePages&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Makes the kernel allocate the pages of `bytes` bytes at `offset`, none of
  // which is shared memory. Their contents do not change, and other threads may
  // write to them at the same time. Until then, all pages that were not written
  // yet are the same page of zeros, which belongs to the kernel.
  void Populate(int64_t offset, int64_t bytes) const;

 private:
  char* data_;
  int64_t bytes_;
};

// Gives the whole pages within `bytes` bytes at `data`, which are in a
// PrivatePages, back to the system. Their contents become zeros.
void DropPages(char* data, int64_t bytes);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_SHARED_MEMORY_H_
