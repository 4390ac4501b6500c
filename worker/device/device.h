// A device: memory, copies, and the groups of operations that layers are
// implemented with (worker/device/ops). CpuDevice is the reference. Other
// devices implement the same operations, and one conformance suite
// (tests/worker/device) compares every operation with float64.
//
// Conventions of all operations: each takes one struct of arguments. Tensors
// are dense and row-major in device memory; the start of a buffer is 64-byte
// aligned. Tensors of type Real have the device's precision. All other tensors
// are float32. All arithmetic is in float32, except that matrix products and
// convolutions may round their operands to bfloat16 or TF32 (see Precision).
// Pointers to const are inputs, the others outputs; outputs never alias inputs
// unless a comment permits it. "=" overwrites, "+=" adds to the previous value.
// On devices with a stream, operations are asynchronous and run in order; only
// Synchronize, Allocate, the copies from and to the host, and operations that
// return host values block (cuda_device.h lists exceptions). Layers validate
// all sizes when they are planned, so arguments are never invalid.
//
// Determinism: the result of an operation depends only on its arguments, never
// on other threads or instances.
#ifndef TRIBUTARY_WORKER_DEVICE_DEVICE_H_
#define TRIBUTARY_WORKER_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/capture.h"
#include "worker/device/copies.h"
#include "worker/device/ops/operations.h"
#include "worker/device/ops/real.h"

namespace tributary {

// A CPU or GPU that runs the operations of layers in the order in which they
// are queued. Not thread-safe, but different threads may use it one after the
// other. Different instances may work concurrently; they share nothing.
class Device {
 public:
  virtual ~Device() = default;

  // Returns the operations of this device. They are valid as long as the device
  // exists.
  const Operations& ops() const { return *parts_.ops; }

  // Returns the number format (kFloat32 or kBfloat16) of Real, the type of
  // activations and their gradients on this device.
  virtual Precision precision() const = 0;
  // Returns the size of a Real in bytes.
  int64_t real_bytes() const {
    return precision() == Precision::kBfloat16 ? 2 : 4;
  }
  // Returns a name for display: "cpu", or the GPU's name.
  virtual std::string name() const { return "cpu"; }
  // Returns the PCI address of a GPU, such as "0000:3b:00.0". Returns an empty
  // string for other devices.
  virtual std::string bus_id() const { return ""; }

  // A handle that frees device memory. It must not outlive the device.
  using Memory = std::unique_ptr<void, void (*)(void*)>;
  // Returns zeroed memory, aligned to 64 bytes. On devices that work in host
  // memory, large blocks use huge pages. Returns ResourceExhausted if memory
  // does not suffice.
  virtual absl::StatusOr<Memory> Allocate(size_t bytes) = 0;
  // Returns the number of bytes of device memory that are currently free, or
  // nullopt if unknown.
  virtual std::optional<int64_t> AvailableMemoryBytes() const {
    return std::nullopt;
  }
  // Returns the bytes of host memory that operations have taken so far for
  // their temporary data. May be called by any thread.
  virtual int64_t workspace_bytes() const { return 0; }
  // Copies host memory to the device. The memory at `from` may be changed once
  // the call has returned.
  virtual void CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  // Copies device memory to the host. Blocks until the copy is complete.
  // Returns the errors of Synchronize.
  virtual absl::Status CopyToHost(void* to, const void* from, size_t bytes) = 0;
  // Sets `count` floats in device memory to zero.
  virtual void Zero(float* to, int64_t count) = 0;
  // Blocks until all operations are complete. Returns the first error of this
  // device, or OK. After an error, the device runs no operations, the content
  // of its memory is undefined, and all later calls return the same error. The
  // error is Internal if the GPU, its driver or a library failed, and
  // ResourceExhausted if memory did not suffice. Both name the operation and
  // the GPU.
  virtual absl::Status Synchronize() = 0;

  // Returns the cudaStream_t on which the operations run, so that other CUDA
  // code of this process can wait for them, and they for it. Returns null for
  // devices that run each operation at once. Valid as long as the device.
  virtual void* stream() { return nullptr; }

  // Sets the offset that is added to the random streams (see RandomBase) of all
  // operations queued from now on. It also applies to captured operations that
  // are launched from now on, which therefore draw new random numbers.
  // Initially 0.
  virtual void SetRandomBase(const RandomBase& base) = 0;

  // Returns the interface for concurrent copies, or null if the device works in
  // host memory.
  Copies* copies() const { return parts_.copies; }
  bool has_own_memory() const { return parts_.copies != nullptr; }
  // Returns the interface that captures operations for repeated launches, or
  // null if the device does not capture operations.
  Capture* capture() const { return parts_.capture; }

 protected:
  // The objects that ops(), copies() and capture() return. All must live as
  // long as the device.
  struct Parts {
    const Operations* ops = nullptr;
    Copies* copies = nullptr;
    Capture* capture = nullptr;
  };
  explicit Device(const Parts& parts) : parts_(parts) {}

 private:
  const Parts parts_;
};

// Creates a single-threaded CPU device for any x86-64 processor. Treats kTf32
// as kFloat32.
std::unique_ptr<Device> CreateCpuDevice(
    Precision precision = Precision::kFloat32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_DEVICE_H_
