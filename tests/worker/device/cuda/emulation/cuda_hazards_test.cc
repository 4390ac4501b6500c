// Mistakes that no result on one GPU shows: stale errors, contexts on other
// GPUs, and host memory that is reused too early.
#include <sys/mman.h>

#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "cuda_runtime.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr size_t kPage = 4096;

// Calls work() on a thread that has not used CUDA.
template <typename Work>
void OnNewThread(const Work& work) {
  std::thread(work).join();
}

// Two pages of this process's memory, mapped with the given access.
class Pages {
 public:
  explicit Pages(int access)
      : memory_(mmap(nullptr, 2 * kPage, access, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0)) {}
  ~Pages() { munmap(memory_, 2 * kPage); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void* get() const { return memory_; }

 private:
  void* const memory_;
};

std::unique_ptr<Device> MakeDevice(int ordinal = 0) {
  return *CreateCudaDevice(ordinal, Precision::kFloat32);
}

// Sorts, which fails if the thread's last error is stale.
void EmbeddingBackward(Device* device) {
  const int32_t token = 0;
  const Device::Memory tokens = *device->Allocate(sizeof(token));
  device->CopyFromHost(tokens.get(), &token, sizeof(token));
  const Device::Memory dy = *device->Allocate(sizeof(float));
  const Device::Memory dtokens = *device->Allocate(sizeof(float));
  const Device::Memory dpositions = *device->Allocate(sizeof(float));
  device->ops().embedding->Backward(
      {/*batch=*/1, /*time=*/1, /*width=*/1,
       /*vocabulary=*/1, static_cast<const int32_t*>(tokens.get()),
       AsReals(static_cast<const float*>(dy.get())),
       /*accumulate=*/false, static_cast<float*>(dtokens.get()),
       static_cast<float*>(dpositions.get())});
  EXPECT_TRUE(device->Synchronize().ok());
}

TEST(StaleErrorTest, PinningReadOnlyMemoryLeavesNone) {
  const std::unique_ptr<Device> device = MakeDevice();
  const Pages weights(PROT_READ);
  const auto pinned = device->copies()->PinHostMemory(weights.get(), 2 * kPage);
  EXPECT_NE(pinned, nullptr);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EmbeddingBackward(device.get());
}

TEST(StaleErrorTest, PinningTwiceLeavesNone) {
  const std::unique_ptr<Device> device = MakeDevice();
  const Pages memory(PROT_READ | PROT_WRITE);
  const auto pinned = device->copies()->PinHostMemory(memory.get(), 2 * kPage);
  EXPECT_NE(pinned, nullptr);
  EXPECT_EQ(device->copies()->PinHostMemory(memory.get(), 2 * kPage), nullptr);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST(StaleErrorTest, AskingForAnEventLeavesNone) {
  const std::unique_ptr<Device> device = MakeDevice();
  const std::unique_ptr<CopyStream> stream = *device->copies()->CreateStream();
  const std::unique_ptr<Event> event = *device->copies()->CreateEvent();
  bool open = false;
  emulated_gpu::Enqueue(static_cast<emulated_gpu::Stream*>(stream->handle()),
                        [&open] { return open; });
  stream->Record(event.get());
  EXPECT_FALSE(*event->Done());
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  open = true;
  EXPECT_TRUE(*event->Done());
}

TEST(StaleErrorTest, AFullGpuLeavesNone) {
  const std::unique_ptr<Device> device = MakeDevice();
  EXPECT_THAT(device->Allocate(emulated_gpu::MemoryBytes() + 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("bytes of GPU memory on cuda:0")));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST(StaleErrorTest, AnErrorThatIsReturnedLeavesNone) {
  const std::unique_ptr<Device> device = MakeDevice();
  ASSERT_TRUE(device->capture()->Begin().ok());
  EXPECT_THAT(device->Allocate(1),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cudaMalloc: ")));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_THAT(device->capture()->End(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("cudaStreamEndCapture: ")));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

// A worker or server on GPU 1 must leave GPU 0's memory to its owner.
class OtherGpuTest : public testing::Test {
 protected:
  OtherGpuTest() { emulated_gpu::DestroyContext(0); }
  ~OtherGpuTest() override { EXPECT_FALSE(emulated_gpu::HasContext(0)); }

  std::unique_ptr<Device> device_ = [] {
    // The thread's own current GPU stays 0.
    std::unique_ptr<Device> device;
    OnNewThread([&] { device = MakeDevice(1); });
    return device;
  }();
};

TEST_F(OtherGpuTest, EventsKeepToTheirGpu) {
  std::unique_ptr<Event> event;
  OnNewThread([&] {
    event = *device_->copies()->CreateEvent();
    device_->copies()->Record(event.get());
  });
  OnNewThread([&] { EXPECT_TRUE(event->Wait().ok()); });
  OnNewThread([&] { EXPECT_TRUE(*event->Done()); });
  OnNewThread([&] { event.reset(); });
}

TEST_F(OtherGpuTest, PinnedMemoryKeepsToItsGpu) {
  const Pages memory(PROT_READ | PROT_WRITE);
  std::shared_ptr<void> pinned;
  OnNewThread(
      [&] { pinned = device_->copies()->PinHostMemory(memory.get(), kPage); });
  EXPECT_NE(pinned, nullptr);
  OnNewThread([&] { pinned.reset(); });
  EXPECT_FALSE(emulated_gpu::IsPinned(memory.get()));
}

TEST_F(OtherGpuTest, MemoryKeepsToItsGpu) {
  auto memory = device_->Allocate(100);
  OnNewThread([&] { memory->reset(); });
}

TEST_F(OtherGpuTest, GraphsAndStreamsKeepToTheirGpu) {
  std::unique_ptr<CapturedWork> work;
  std::unique_ptr<CopyStream> stream;
  OnNewThread([&] {
    ASSERT_TRUE(device_->capture()->Begin().ok());
    work = *device_->capture()->End();
    stream = *device_->copies()->CreateStream();
  });
  OnNewThread([&] { work.reset(); });
  OnNewThread([&] { stream.reset(); });
  OnNewThread([&] { device_.reset(); });
}

TEST(CopyStreamTest, MemoryMayBeReusedAfterItsDestruction) {
  const std::unique_ptr<Device> device = MakeDevice();
  const Device::Memory memory = *device->Allocate(sizeof(int));
  const Pages pages(PROT_READ | PROT_WRITE);
  const auto pinned = device->copies()->PinHostMemory(pages.get(), kPage);
  int& source = *static_cast<int*>(pages.get());
  source = 1;
  {
    const std::unique_ptr<CopyStream> stream =
        *device->copies()->CreateStream();
    stream->CopyFromHost(memory.get(), &source, sizeof(source));
  }
  source = 2;
  int copied = 0;
  EXPECT_TRUE(device->CopyToHost(&copied, memory.get(), sizeof(copied)).ok());
  EXPECT_EQ(copied, 1);
}

// CUDA may copy from pageable memory after cudaMemcpyAsync has returned.
TEST(PageableMemoryTest, MayBeReusedAfterCopyFromHost) {
  const std::unique_ptr<Device> device = MakeDevice();
  const Device::Memory memory = *device->Allocate(sizeof(int));
  for (const bool pins : {false, true}) {
    const Pages pages(PROT_READ | PROT_WRITE);
    const auto pinned =
        pins ? device->copies()->PinHostMemory(pages.get(), kPage) : nullptr;
    int& source = *static_cast<int*>(pages.get());
    source = 1;
    device->CopyFromHost(memory.get(), &source, sizeof(source));
    source = 2;
    int copied = 0;
    EXPECT_TRUE(device->CopyToHost(&copied, memory.get(), sizeof(copied)).ok());
    EXPECT_EQ(copied, 1) << (pins ? "pinned" : "pageable");
  }
}

}  // namespace
}  // namespace tributary
