// Memory that processes of one user on one host share: how gradients and
// weights get from worker to server and back without being moved.
#ifndef TRIBUTARY_COMMON_OS_SHARED_MEMORY_H_
#define TRIBUTARY_COMMON_OS_SHARED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Names this host and network namespace: processes with equal names reach one
// another through shared memory and abstract Unix sockets.
std::string HostIdentity();

// The page size that offsets and sizes below are multiples of.
inline constexpr int64_t kPageBytes = 4096;
constexpr int64_t RoundUpToPage(int64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Memory of this process that others may map, for reading only. It has no name
// in any file system, goes away with the last process that maps it, and takes
// room only where it has been written to. All zero at first.
class SharedMemory {
 public:
  // `bytes` is rounded up to whole pages. Unavailable where the kernel does not
  // give such memory.
  static absl::StatusOr<std::shared_ptr<SharedMemory>> Create(int64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // What another process needs to map it.
  const SharedMemoryOffer& offer() const { return offer_; }

 private:
  SharedMemory() = default;

  int descriptor_ = -1;
  char* begin_ = nullptr;  // One page with the token, then the data.
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  SharedMemoryOffer offer_;
};

// Another process's SharedMemory, seen from here. It stays readable when that
// process has ended.
class MappedMemory {
 public:
  // FailedPrecondition, with the reason, if it cannot be mapped: another host,
  // container or user, or not what the offer says. The offer is checked before
  // it is trusted: owner, size, a seal against shrinking (so that reading can
  // never fault), and a random token in the memory itself.
  static absl::StatusOr<std::shared_ptr<const MappedMemory>> Map(
      const SharedMemoryOffer& offer);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  const char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  // Lets `bytes` from `offset` on appear at `to`, in place of what was mapped
  // there, for as long as that range stays mapped. All multiples of kPageBytes.
  absl::Status MapAt(void* to, int64_t offset, int64_t bytes) const;

 private:
  MappedMemory() = default;

  int descriptor_ = -1;
  const char* begin_ = nullptr;
  const char* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Zeroed memory of this process alone, in whole pages, any of which
// MappedMemory::MapAt may replace.
class PrivatePages {
 public:
  // Throws std::bad_alloc.
  explicit PrivatePages(int64_t bytes);
  ~PrivatePages();
  PrivatePages(const PrivatePages&) = delete;
  PrivatePages& operator=(const PrivatePages&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_;
  int64_t bytes_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_SHARED_MEMORY_H_
