// Memory for the rows of a table.
#ifndef TRIBUTARY_COMMON_SPARSE_SLAB_MEMORY_H_
#define TRIBUTARY_COMMON_SPARSE_SLAB_MEMORY_H_

#include <cstdint>
#include <vector>

namespace tributary {

// Allocates slabs of equal size from large regions of huge pages, so that many
// small slabs cost neither calls of the system nor entries of the TLB. Slabs
// are freed together, when the object is destroyed. Not thread-safe.
class SlabMemory {
 public:
  // `slab_bytes` must be a multiple of 8. The regions take at most
  // `limit_bytes`; 0: no limit.
  SlabMemory(int64_t slab_bytes, int64_t limit_bytes);
  ~SlabMemory();
  SlabMemory(const SlabMemory&) = delete;
  SlabMemory& operator=(const SlabMemory&) = delete;

  // Returns a slab with unspecified contents, aligned to 8 bytes, or null if
  // memory or `limit_bytes` does not suffice.
  char* Take();
  // Returns the bytes of all regions.
  int64_t bytes() const { return bytes_; }

 private:
  struct Region {
    char* memory = nullptr;
    int64_t bytes = 0;
  };

  const int64_t slab_bytes_;
  const int64_t limit_bytes_;
  int64_t bytes_ = 0;
  std::vector<Region> regions_;
  int64_t used_ = 0;  // Bytes of the last region that belong to slabs.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_SLAB_MEMORY_H_
