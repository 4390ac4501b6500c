// The layout of a row in memory.
#ifndef TRIBUTARY_COMMON_SPARSE_ROW_LAYOUT_H_
#define TRIBUTARY_COMMON_SPARSE_ROW_LAYOUT_H_

#include <cstdint>

namespace tributary {

// The first bytes of a row.
struct RowHeader {
  uint64_t key = 0;
  // The last step whose gradient contained the key.
  uint32_t last_step = 0;
  uint32_t checksum = 0;  // In a RowLog only.
};

// A row consists of a RowHeader, `dim` values and `state` numbers of the update
// rule.
struct RowLayout {
  int dim = 0;
  int state = 0;

  int64_t floats() const { return int64_t{dim} + state; }
  int64_t bytes() const {
    return (static_cast<int64_t>(sizeof(RowHeader)) + 4 * floats() + 7) / 8 * 8;
  }
};

inline float* RowValues(RowHeader* row) {
  return reinterpret_cast<float*>(row + 1);
}
inline const float* RowValues(const RowHeader* row) {
  return reinterpret_cast<const float*>(row + 1);
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_ROW_LAYOUT_H_
