// Groups of consecutive elements, which a thread loads and stores at once. For
// .cu files only.
#ifndef TRIBUTARY_COMMON_CUDA_NEIGHBOURS_H_
#define TRIBUTARY_COMMON_CUDA_NEIGHBOURS_H_

#include <cstdint>

namespace tributary::cuda {

// A group of kCount consecutive elements. A thread reads or writes a whole
// group at once, so that fewer threads suffice to use the full memory
// bandwidth.
template <typename T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Neighbours {
  T values[kCount];
};

template <typename Group, typename T>
bool IsAligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % alignof(Group) == 0;
}

// Number of elements in 16 bytes, the most that a thread loads at once.
template <typename T>
inline constexpr int kGroup = 16 / sizeof(T);
template <typename T>
using Group = Neighbours<T, kGroup<T>>;

// These functions load and store a group. The pointer must be aligned to
// alignof(Group<T>).
template <typename T>
__device__ inline Group<T> LoadGroup(const T* from) {
  return *reinterpret_cast<const Group<T>*>(from);
}
template <typename T>
__device__ inline void StoreGroup(const Group<T>& group, T* to) {
  *reinterpret_cast<Group<T>*>(to) = group;
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_NEIGHBOURS_H_
