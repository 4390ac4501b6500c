#include "common/update/cuda/pass_stream.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/node_format.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/gradient_squares.h"

namespace tributary::cuda {
namespace {

// Returns the size of the sums of squares, in elements of working memory. What
// follows them stays aligned.
int64_t SquaresElements(int64_t chunk_elements) {
  constexpr int64_t kOfBlock = sizeof(BlockSquares) / sizeof(float);
  static_assert(kGroupChunks * kOfBlock % kArenaAlignment == 0, "alignment");
  return kGroupChunks * SquareBlocks(chunk_elements) * kOfBlock;
}

bool HasSparse(const TreeSum& sum) {
  return std::any_of(sum.steps().begin(), sum.steps().end(),
                     [](const std::shared_ptr<const GradientSource>& source) {
                       return source != nullptr && source->sparse();
                     });
}

absl::Status MakeEvent(cudaEvent_t* event) {
  // Waiting threads sleep instead of spinning, so that other passes and workers
  // can use the core.
  return ToStatus(cudaEventCreateWithFlags(
                      event, cudaEventDisableTiming | cudaEventBlockingSync),
                  "cannot make an event");
}

}  // namespace

int64_t PassStream::DeviceElements(int64_t chunk_elements, int depth) {
  // The sum at height 0 of the stack is one of the group's.
  return SquaresElements(chunk_elements) +
         chunk_elements * (kGroupChunks + depth - 1);
}

absl::StatusOr<std::unique_ptr<PassStream>> PassStream::Create(
    int ordinal, int64_t chunk_elements, float* memory) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream,
                             Stream::Create(ordinal));
  auto pass_stream = absl::WrapUnique(
      new PassStream(std::move(stream), chunk_elements, memory));
  TRIBUTARY_RETURN_IF_ERROR(pass_stream->Allocate());
  return pass_stream;
}

PassStream::PassStream(std::unique_ptr<Stream> stream, int64_t chunk_elements,
                       float* memory)
    : stream_(std::move(stream)),
      chunk_elements_(chunk_elements),
      device_squares_(reinterpret_cast<BlockSquares*>(memory)),
      sums_(memory + SquaresElements(chunk_elements)),
      stack_(sums_ + kGroupChunks * chunk_elements) {}

absl::Status PassStream::Allocate() {
  for (Staging& staging : staging_) {
    TRIBUTARY_RETURN_IF_ERROR(
        ToStatus(cudaMallocHost(reinterpret_cast<void**>(&staging.memory),
                                BytesOf(chunk_elements_)),
                 absl::StrCat("no ", BytesOf(chunk_elements_),
                              " bytes of pinned host memory")));
    TRIBUTARY_RETURN_IF_ERROR(MakeEvent(&staging.copied));
  }
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaMallocHost(reinterpret_cast<void**>(&host_squares_),
                              BytesOf(SquaresElements(chunk_elements_))),
               "no pinned host memory"));
  return MakeEvent(&done_);
}

PassStream::~PassStream() {
  Use();
  for (const Staging& staging : staging_) {
    if (staging.memory != nullptr) cudaFreeHost(staging.memory);
    if (staging.copied != nullptr) cudaEventDestroy(staging.copied);
  }
  if (host_squares_ != nullptr) cudaFreeHost(host_squares_);
  if (done_ != nullptr) cudaEventDestroy(done_);
}

Stream& PassStream::Use() {
  stream_->Activate();
  return *stream_;
}

void PassStream::CopyIn(const float* host, int64_t elements, float* device) {
  stream_->Enqueue("copying to the GPU", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(device, host, BytesOf(elements),
                           cudaMemcpyHostToDevice, queue);
  });
}

void PassStream::CopyOut(const float* device, int64_t elements, float* host) {
  stream_->Enqueue("copying from the GPU", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(host, device, BytesOf(elements),
                           cudaMemcpyDeviceToHost, queue);
  });
}

void PassStream::CopyOnDevice(const float* from, int64_t elements, float* to) {
  stream_->Enqueue("copying on the GPU", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(to, from, BytesOf(elements),
                           cudaMemcpyDeviceToDevice, queue);
  });
}

PassStream::Staging& PassStream::NextStaging() {
  Staging& next = staging_[next_staging_];
  next_staging_ = (next_staging_ + 1) % staging_.size();
  stream_->Enqueue("waiting for a copy", [&](cudaStream_t) {
    return cudaEventSynchronize(next.copied);
  });
  return next;
}

void PassStream::CopyStaged(const Staging& staging, int64_t elements,
                            float* device) {
  CopyIn(staging.memory, elements, device);
  stream_->Enqueue("cudaEventRecord", [&](cudaStream_t queue) {
    return cudaEventRecord(staging.copied, queue);
  });
}

float* PassStream::PlaceOf(int height, float* first) const {
  return height == 0 ? first : stack_ + (height - 1) * chunk_elements_;
}

const float* PassStream::Sum(const TreeSum& sum, int64_t elements, float* to) {
  const NodeFormat format = NodeFormatOf(sum.dtype());
  if (HasSparse(sum)) {
    SumOnHost(sum, format, elements, to);
    return to;
  }
  const auto steps = sum.steps();
  std::vector<const float*> stack;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == nullptr) {
      const float* const added = stack.back();
      stack.pop_back();
      AddNode(*stream_, format, elements, added,
              PlaceOf(static_cast<int>(stack.size()) - 1, to));
      continue;
    }
    // A sum is added to the array below it, so what is below must be a copy.
    const bool stays_on_top = i + 1 == steps.size() || steps[i + 1] == nullptr;
    const MemoryView& there = steps[i]->memory();
    if (!there.on_host() && stays_on_top && format == NodeFormat::kFloat32) {
      stack.push_back(there.values);
      continue;
    }
    float* const place = PlaceOf(static_cast<int>(stack.size()), to);
    CopySource(*steps[i], format, elements, place);
    stack.push_back(place);
  }
  return stack.back();
}

void PassStream::CopySource(const GradientSource& source, NodeFormat format,
                            int64_t elements, float* to) {
  const MemoryView& memory = source.memory();
  if (!memory.empty()) {
    if (memory.on_host()) {
      CopyIn(memory.values, elements, to);
    } else {
      CopyOnDevice(memory.values, elements, to);
    }
    RoundNode(*stream_, format, elements, to, to);
    return;
  }
  const Staging& staging = NextStaging();
  const float* const read = source.Read(0, elements, staging.memory);
  if (read != staging.memory) std::copy_n(read, elements, staging.memory);
  CopyStaged(staging, elements, to);
}

void PassStream::SumOnHost(const TreeSum& sum, NodeFormat format,
                           int64_t elements, float* first) {
  const Staging& one = NextStaging();
  const Staging& other = NextStaging();
  bool two = false;
  for (int64_t begin = 0; begin < elements; begin += TreeSum::kBlock) {
    const int64_t count = std::min(TreeSum::kBlock, elements - begin);
    const float* half = nullptr;
    const float* other_half = nullptr;
    sum.Read(begin, count, &half, &other_half);
    std::copy_n(half, count, one.memory + begin);
    two = other_half != nullptr;  // The same for all blocks.
    if (two) std::copy_n(other_half, count, other.memory + begin);
  }
  CopyStaged(one, elements, first);
  if (!two) return;
  CopyStaged(other, elements, PlaceOf(1, first));
  AddNode(*stream_, format, elements, PlaceOf(1, first), first);
}

void PassStream::CopySquares(int count) {
  stream_->Enqueue("copying from the GPU", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(
        host_squares_, device_squares_,
        count * SquareBlocks(chunk_elements_) * sizeof(BlockSquares),
        cudaMemcpyDeviceToHost, queue);
  });
}

double PassStream::squares(int place, int64_t elements) const {
  return GradientSquares::TotalOf(
      {host_squares_ + place * SquareBlocks(chunk_elements_),
       static_cast<size_t>(SquareBlocks(elements))});
}

absl::Status PassStream::Wait() {
  stream_->Enqueue("cudaEventRecord", [&](cudaStream_t queue) {
    return cudaEventRecord(done_, queue);
  });
  stream_->Enqueue("waiting for the GPU",
                   [&](cudaStream_t) { return cudaEventSynchronize(done_); });
  return stream_->Wait();  // All is done.
}

}  // namespace tributary::cuda
