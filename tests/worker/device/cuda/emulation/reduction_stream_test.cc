// ReductionStream on the emulated GPU, compared with the CPU.
#include "worker/device/reduction_stream.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/gradient_squares.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/cuda/emulation/emulated_failures.h"
#include "tests/worker/device/cuda/emulation/emulated_memory.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_reduction_stream.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The parameters leave gaps, and belong to all groups.
ArenaLayout MakeLayout(int64_t chunk_elements) {
  ParameterTable table;
  table.set_chunk_elements(chunk_elements);
  for (int i = 0; i < 100; ++i) {
    ParameterTable::Parameter* const parameter = table.add_parameter();
    parameter->set_name("p" + std::to_string(i));
    parameter->add_shape(70 + i % 9);
    parameter->set_group(i % 3 == 0   ? DECAY
                         : i % 3 == 1 ? NO_DECAY
                                      : STATISTICS);
  }
  return *ArenaLayout::Create(table);
}

class ReductionStreamTest : public testing::Test {
 protected:
  // By default, there are more chunks than one launch updates, or sums the
  // squares of.
  explicit ReductionStreamTest(int64_t chunk_elements = 64)
      : layout_(MakeLayout(chunk_elements)) {
    emulated_gpu::ProtectMemory();
  }
  ~ReductionStreamTest() override { emulated_gpu::StopFailing(); }

  std::unique_ptr<ReductionStream> Create(int slots) {
    ReductionStream::Plan plan;
    plan.layout = &layout_;
    // Every third chunk has no state.
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      if (chunk % 3 != 2) plan.chunks.push_back(chunk);
    }
    plan.slots = slots;
    updated_ = plan.chunks;
    return *CreateCudaReductionStream(*CudaBusId(1), plan);
  }

  // Returns an arena with zeros in gaps.
  std::vector<float> RandomArena(uint32_t seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> arena(layout_.arena_elements());
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      for (const ChunkSegment& segment : layout_.ChunkSegments(chunk)) {
        for (int64_t i = segment.begin; i < segment.end; ++i) {
          arena[layout_.ChunkBegin(chunk) + i] = normal(random);
        }
      }
    }
    return arena;
  }
  Buffer OnDevice(ReductionStream* stream, const std::vector<float>& values) {
    Buffer there = stream->Allocate(static_cast<int64_t>(values.size()));
    stream->CopyIn(values.data(), static_cast<int64_t>(values.size()),
                   there.get());
    return there;
  }
  std::vector<float> OnHost(ReductionStream* stream, const float* from,
                            int64_t count) {
    std::vector<float> values(count);
    EXPECT_EQ(stream->CopyOut(from, count, values.data()), absl::OkStatus());
    return values;
  }

  void ExpectSquaresOfTheCpu() {
    const std::unique_ptr<ReductionStream> stream = Create(/*slots=*/0);
    const std::vector<float> x = RandomArena(3), y = RandomArena(4);
    const Buffer sum = OnDevice(stream.get(), x);
    const Buffer other = OnDevice(stream.get(), y);
    stream->Add(other.get(), layout_.arena_elements(), sum.get());
    std::vector<ReductionStream::GradientSum> gradients;
    std::vector<double> expected;
    for (int chunk = layout_.chunk_count() - 1; chunk >= 0; --chunk) {
      const int64_t begin = layout_.ChunkBegin(chunk);
      gradients.push_back({chunk, sum.get() + begin});
      const std::vector<ChunkSegment> segments = layout_.ChunkSegments(chunk);
      GradientSquares squares(segments);
      squares.Add(&x[begin], &y[begin], layout_.ChunkSize(chunk));
      expected.push_back(squares.Total());
    }
    EXPECT_EQ(*stream->SumSquares(gradients), expected);
    EXPECT_TRUE(stream->SumSquares({})->empty());
  }

  const ArenaLayout layout_;
  std::vector<int> updated_;
};

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST_F(ReductionStreamTest, UpdatesWithTheBitsOfTheCpu) {
  ASSERT_GT(layout_.chunk_count(), 100);
  for (const char* text :
       {"sgd { learning_rate: 0.1 weight_decay: 0.01 }",
        "sgd { learning_rate: 0.1 momentum: 0.9 weight_decay: 0.01 }",
        "sgd { learning_rate: 0.1 momentum: 0.9 nesterov: true }",
        "adam { learning_rate: 0.01 weight_decay: 0.01 }",
        "adamw { learning_rate: 0.01 weight_decay: 0.1 }"}) {
    SCOPED_TRACE(text);
    OptimizerSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
    const std::unique_ptr<Optimizer> optimizer = *Optimizer::Create(spec);
    const std::unique_ptr<ReductionStream> stream = Create(optimizer->slots());
    std::vector<float> weights = RandomArena(1);
    std::vector<std::vector<float>> slots(
        optimizer->slots(), std::vector<float>(layout_.arena_elements()));
    Buffer there = OnDevice(stream.get(), weights);
    for (int64_t number = 0; number < 3; ++number) {
      const std::vector<float> gradient = RandomArena(10 + number);
      UpdateStep numbers;
      numbers.gradient_scale = 0.25f;
      numbers.statistics_scale = 0.025f;
      numbers.learning_rate = 0.01 * static_cast<double>(1 + number);
      numbers.number = number;
      const OptimizerStep step = optimizer->At(numbers);

      const Buffer gradient_there = OnDevice(stream.get(), gradient);
      const Buffer next =
          OnDevice(stream.get(), std::vector<float>(layout_.arena_elements()));
      std::vector<float> expected(layout_.arena_elements());
      std::vector<ReductionStream::UpdateArrays> updates;
      for (const int chunk : updated_) {
        const int64_t begin = layout_.ChunkBegin(chunk);
        updates.push_back({chunk, gradient_there.get() + begin,
                           there.get() + begin, next.get() + begin});
        std::vector<float*> state;
        for (std::vector<float>& slot : slots) state.push_back(&slot[begin]);
        UpdateArguments update;
        update.gradient_sum = &gradient[begin];
        update.weights = &weights[begin];
        update.new_weights = &expected[begin];
        update.slots = state;
        const std::vector<ChunkSegment> segments = layout_.ChunkSegments(chunk);
        update.segments = segments;
        step.Update(update);
      }
      stream->Update(step, updates);
      ExpectSameBits(OnHost(stream.get(), next.get(), layout_.arena_elements()),
                     expected);
      weights = expected;
      there = next;
    }
    for (const int chunk : updated_) {
      for (int slot = 0; slot < optimizer->slots(); ++slot) {
        const int64_t begin = layout_.ChunkBegin(chunk);
        const int64_t count = layout_.ChunkSize(chunk);
        ExpectSameBits(
            OnHost(stream.get(), stream->slot(chunk, slot), count),
            {slots[slot].begin() + begin, slots[slot].begin() + begin + count});
      }
    }
    EXPECT_EQ(stream->slot(2, 0), nullptr);
  }
}

TEST_F(ReductionStreamTest, SumsSquaresWithTheBitsOfTheCpu) {
  ExpectSquaresOfTheCpu();
}

// Chunks of three blocks of squares each, of which the last has 16 elements;
// the last chunk is shorter.
class LargeChunksTest : public ReductionStreamTest {
 protected:
  LargeChunksTest() : ReductionStreamTest(2 * kSquareBlock + 16) {}
};

TEST_F(LargeChunksTest, HaveSquaresWithTheBitsOfTheCpu) {
  ASSERT_GT(layout_.chunk_count(), 2);
  ExpectSquaresOfTheCpu();
}

TEST_F(ReductionStreamTest, AnErrorNamesTheOperationAndTheGpuAndRemains) {
  const std::unique_ptr<ReductionStream> stream = Create(/*slots=*/0);
  const Buffer sum = OnDevice(stream.get(), RandomArena(8));
  emulated_gpu::FailNext(emulated_gpu::Failing::kLaunch, 0);
  stream->Add(sum.get(), 16, sum.get() + 16);
  emulated_gpu::StopFailing();
  const auto failed =
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("AddNode on cuda:1"),
                     HasSubstr("cudaErrorLaunchOutOfResources")));
  EXPECT_THAT(stream->Record()->Wait(), failed);
  EXPECT_THAT(stream->Synchronize(), failed);
  EXPECT_THAT(stream->SumSquares({{0, sum.get()}}).status(), failed);
}

// The GPU may be broken, which is not a lack of memory.
TEST_F(ReductionStreamTest, FailsWithTheErrorOfCudaIfItCannotCreateAnEvent) {
  const std::unique_ptr<ReductionStream> stream = Create(/*slots=*/0);
  const Buffer sum = OnDevice(stream.get(), RandomArena(8));
  // Takes the event that CopyIn has created.
  const std::shared_ptr<Event> held = stream->Record();
  emulated_gpu::FailNext(emulated_gpu::Failing::kEvent, 0);
  const std::shared_ptr<Event> event = stream->Record();
  emulated_gpu::StopFailing();
  const auto failed = StatusIs(absl::StatusCode::kInternal,
                               AllOf(HasSubstr("an event on cuda:1"),
                                     HasSubstr("cudaErrorLaunchFailure")));
  EXPECT_THAT(event->Wait(), failed);
  EXPECT_THAT(event->Done().status(), failed);
  EXPECT_THAT(stream->Synchronize(), failed);
  EXPECT_THAT(stream->SumSquares({{0, sum.get()}}).status(), failed);
  // A stream that awaits the event fails too.
  const std::unique_ptr<Device> device = *CreateCudaDevice(1);
  const std::unique_ptr<CopyStream> copies = *device->copies()->CreateStream();
  copies->Await(*event);
  EXPECT_THAT(copies->Synchronize(), failed);
}

TEST_F(ReductionStreamTest, SaysThatTheStateDoesNotFit) {
  ReductionStream::Plan plan;
  plan.layout = &layout_;
  plan.chunks = {0, 1};
  plan.slots = 2;
  emulated_gpu::FailNext(emulated_gpu::Failing::kAllocation, 0);
  EXPECT_THAT(
      CreateCudaReductionStream(*CudaBusId(0), plan).status(),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("does not fit: "), HasSubstr("cuda:0"))));
  emulated_gpu::StopFailing();
  const std::unique_ptr<ReductionStream> stream = Create(/*slots=*/0);
  emulated_gpu::FailNext(emulated_gpu::Failing::kAllocation, 0);
  EXPECT_THROW(stream->Allocate(16), std::bad_alloc);
}

TEST_F(ReductionStreamTest, FindsNoGpuAtAnUnknownAddress) {
  ReductionStream::Plan plan;
  plan.layout = &layout_;
  EXPECT_THAT(
      CreateCudaReductionStream("0000:ff:00.0", plan).status(),
      StatusIs(absl::StatusCode::kNotFound, "there is no GPU at 0000:ff:00.0"));
}

}  // namespace
}  // namespace tributary
