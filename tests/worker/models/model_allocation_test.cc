// No allocation in a step: counts the calls of operator new in this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "tests/support/model_harness.h"

namespace {
std::atomic<int64_t> allocations{0};
std::atomic<int64_t> allocated_bytes{0};

void* Allocate(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  allocated_bytes += static_cast<int64_t>(bytes);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) std::abort();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes, 16); }
void* operator new[](std::size_t bytes) { return Allocate(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, 16);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, 16);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace tributary {
namespace {

struct Allocations {
  int64_t count = 0;
  int64_t bytes = 0;
};

Allocations AllocationsOfAStep(const std::string& spec, const DataInfo& info) {
  ModelHarness harness(ParseModel(spec), info, /*max_samples=*/4);
  const Batch batch = MakeBatch(info, 4, 1);
  ModelCalls calls;
  // Devices prepare what they need for a shape when they first meet it.
  harness.Step(batch, 0, 0, &calls);
  const int64_t count = allocations, bytes = allocated_bytes;
  harness.Step(batch, 1, 1, &calls);
  return {allocations - count, allocated_bytes - bytes};
}

TEST(ModelAllocationTest, AllocationsAreCounted) {
  const int64_t before = allocations;
  const auto kept = std::make_unique<std::string>(100, 'x');
  EXPECT_EQ(allocations - before, 2);
}

TEST(ModelAllocationTest, MlpStepAllocatesNothing) {
  EXPECT_EQ(
      AllocationsOfAStep("mlp { hidden: 33 dropout: 0.1 }", RowInfo(20, 3))
          .count,
      0);
}

TEST(ModelAllocationTest, GptStepAllocatesNothing) {
  EXPECT_EQ(AllocationsOfAStep(
                "gpt { layers: 2 heads: 2 width: 16 context: 8 dropout: 0.1 }",
                TokenInfo(8, 40))
                .count,
            0);
}

TEST(ModelAllocationTest, CnnStepAllocatesNoTensors) {
  // oneDNN makes lists of arguments for each call of a convolution; the
  // smallest hidden tensor is larger than all of them.
  EXPECT_LT(AllocationsOfAStep("cnn { block { channels: 64 kernel: 1 } block { "
                               "channels: 64 kernel: 1 pool: AVERAGE } }",
                               ImageInfo(64, 12, 12, 3))
                .bytes,
            64 * 6 * 6 * 4 * 4);
}

}  // namespace
}  // namespace tributary
