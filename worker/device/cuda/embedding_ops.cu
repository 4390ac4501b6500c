// In backward, a stable sort groups the positions of each token in sequence
// order, and one block adds the rows of a token. The order of additions is that
// of the sequence, so no atomics are needed and the rounding equals that of
// plain loops.
#include <cub/device/device_radix_sort.cuh>

#include "common/cuda/launch.h"
#include "worker/device/cuda/cuda_ops.h"

namespace tributary::cuda {
namespace {

// dtable[token, :] += rows of dy, [count, width], at the token's positions, in
// order. sorted: [blocks], the tokens in ascending order; places: [blocks], the
// position of each. The block of a token's first position does the work.
template <typename T>
__global__ void SumTokensKernel(int64_t count, int64_t width,
                                const uint32_t* sorted, const uint32_t* places,
                                const T* dy, float* dtable) {
  const int64_t begin = blockIdx.x;
  const uint32_t token = sorted[begin];
  if (begin > 0 && sorted[begin - 1] == token) return;
  // Finds the first larger token by bisection: sorted[low] is not larger.
  int64_t low = begin, end = count;
  while (end - low > 1) {
    const int64_t middle = low + (end - low) / 2;
    if (sorted[middle] == token) {
      low = middle;
    } else {
      end = middle;
    }
  }
  float* const row = dtable + static_cast<int64_t>(token) * width;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    float sum = row[c];
#pragma unroll 4
    for (int64_t i = begin; i < end; ++i) {
      sum += dy[static_cast<int64_t>(places[i]) * width + c];
    }
    row[c] = sum;
  }
}

// Input and output of the sort, [count] each, and its temporary memory.
struct SortMemory {
  uint32_t *places, *sorted, *sorted_places;
  void* work;
  size_t work_bytes;
};

// Queues the sort. If `work` is null, only sets work_bytes.
cudaError_t Sort(SortMemory& memory, const uint32_t* tokens, int64_t count,
                 int64_t vocabulary, cudaStream_t stream) {
  int bits = 1;  // Number of bits of the largest token.
  while (bits < 32 && (int64_t{1} << bits) < vocabulary) ++bits;
  return cub::DeviceRadixSort::SortPairs(
      memory.work, memory.work_bytes, tokens, memory.sorted, memory.places,
      memory.sorted_places, static_cast<int>(count), /*begin_bit=*/0,
      /*end_bit=*/bits, stream);
}

template <typename T>
void AddTokenRows(Stream& stream, Scratch& scratch, int64_t count,
                  int64_t width, int64_t vocabulary, const int32_t* tokens,
                  const T* dy, float* dtable) {
  // Tokens are not negative.
  const auto* const keys = reinterpret_cast<const uint32_t*>(tokens);
  SortMemory memory = {};
  const auto sort = [&](cudaStream_t queue) {
    return Sort(memory, keys, count, vocabulary, queue);
  };
  stream.Enqueue("EmbeddingBackward", sort);
  const size_t bytes = CeilDivide(count, 64) * 64 * sizeof(uint32_t);
  auto* const start =
      static_cast<char*>(scratch.Bytes(3 * bytes + memory.work_bytes));
  memory.places = reinterpret_cast<uint32_t*>(start);
  memory.sorted = reinterpret_cast<uint32_t*>(start + bytes);
  memory.sorted_places = reinterpret_cast<uint32_t*>(start + 2 * bytes);
  memory.work = start + 3 * bytes;

  uint32_t* const places = memory.places;
  ForEach(stream, "EmbeddingBackward", count,
          [=] __device__(int64_t i) { places[i] = static_cast<uint32_t>(i); });
  stream.Enqueue("EmbeddingBackward", sort);
  const int64_t threads =
      std::min<int64_t>(CeilDivide(width, kWarp) * kWarp, kBlockThreads);
  Launch(stream, "EmbeddingBackward", count,
         dim3(static_cast<unsigned>(threads)), &SumTokensKernel<T>, count,
         width, memory.sorted, memory.sorted_places, dy, dtable);
}

// T is what Real stands for.
template <typename T>
class CudaEmbeddingOps final : public EmbeddingOps {
 public:
  explicit CudaEmbeddingOps(CudaContext* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    const int64_t time = args.time, width = args.width;
    const int32_t* const tokens = args.tokens;
    const float* const token_table = args.token_table;
    const float* const position_table = args.position_table;
    const bool accumulate = args.accumulate;
    T* const y = As<T>(args.y);
    ForEachInRows(context_->Current(), "EmbeddingForward", args.batch * time,
                  width, [=] __device__(int64_t i, int64_t c) {
                    float sum = token_table[tokens[i] * width + c];
                    if (position_table != nullptr) {
                      sum += position_table[i % time * width + c];
                    }
                    if (accumulate) sum += y[i * width + c];
                    y[i * width + c] = sum;
                  });
  }
  // Requires batch * time < 2^31.
  void Backward(const BackwardArguments& args) override {
    Stream& stream = context_->Current();
    const int64_t batch = args.batch, time = args.time, width = args.width;
    const T* const dy = As<T>(args.dy);
    float* const dposition_table = args.dposition_table;
    if (!args.accumulate) {
      stream.Enqueue("EmbeddingBackward", [&](cudaStream_t queue) {
        return cudaMemsetAsync(
            args.dtoken_table, 0,
            static_cast<size_t>(args.vocabulary * width) * sizeof(float),
            queue);
      });
    }
    if (dposition_table != nullptr) {
      ForEachInRows(stream, "EmbeddingBackward", time, width,
                    [=] __device__(int64_t t, int64_t c) {
                      float sum = 0;
                      for (int64_t b = 0; b < batch; ++b) {
                        sum += dy[(b * time + t) * width + c];
                      }
                      dposition_table[t * width + c] = sum;
                    });
    }
    AddTokenRows(stream, context_->scratch(), batch * time, width,
                 args.vocabulary, args.tokens, dy, args.dtoken_table);
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<EmbeddingOps> CreateEmbeddingOps(Precision precision,
                                                 CudaContext* context) {
  return CreateOps<EmbeddingOps, CudaEmbeddingOps>(precision, context);
}

}  // namespace tributary::cuda
