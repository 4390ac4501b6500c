// Worker::PinForGpu on the emulated GPU.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/library/model_engine.h"
#include "tests/support/command_runner.h"
#include "tests/support/local_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"
#include "tests/worker/device/cuda/emulation/emulated_memory.h"
#include "tributary/worker.h"

namespace tributary {
namespace {

using ::emulated_gpu::IsPinned;
using ::testing::HasSubstr;

// Returns true if a child process has no access to the memory at this address.
bool IsHiddenFromChildren(const void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  bool contains = false;
  const std::string maps = ReadWholeFile("/proc/self/smaps");
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(std::string(line).c_str(), "%lx-%lx ", &begin, &end) == 2) {
      contains = begin <= address && address < end;
    } else if (contains && absl::StartsWith(line, "VmFlags:")) {
      return absl::StrContains(line, " dc");
    }
  }
  ADD_FAILURE() << "no mapping";
  return false;
}

class PinForGpuTest : public ::testing::TestWithParam<std::string> {
 protected:
  PinForGpuTest() {
    if (!GetParam().empty()) {
      EXPECT_EQ(SetField(&job_, GetParam()), absl::OkStatus());
    }
  }

  // Trains the job with a program that calls PinForGpu if `pins`. Expects that
  // the memory of all items is pinned and hidden from child processes, or that
  // none is.
  void Train(bool pins) {
    LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                         testing::TempDir());
    Worker::Options options;
    options.coordinator = cluster.coordinator();
    absl::StatusOr<Worker> worker = Worker::Connect(options);
    ASSERT_TRUE(worker.ok()) << worker.status();
    if (pins) {
      ASSERT_EQ(worker->PinForGpu(0), absl::OkStatus());
    }
    ModelEngine engine(job_);
    ASSERT_EQ(worker->Declare(engine.Declarations()), absl::OkStatus());
    int items = 0;
    while (Step* const step = worker->NextStep()) {
      for (MicroBatch& micro_batch : step->micro_batches()) {
        EXPECT_EQ(IsPinned(micro_batch.weights(0).data()), pins);
        EXPECT_EQ(IsPinned(micro_batch.gradient(0).data()), pins);
        if (items < 20) {
          const void* const gradient = micro_batch.gradient(0).data();
          EXPECT_EQ(IsHiddenFromChildren(gradient), pins);
          EXPECT_EQ(IsHiddenFromChildren(micro_batch.weights(0).data()), pins);
        }
        engine.Train(&micro_batch);
        ++items;
      }
      for (EvaluationPiece& piece : step->evaluation_pieces()) {
        EXPECT_EQ(IsPinned(piece.weights(0).data()), pins);
        engine.Evaluate(&piece);
        ++items;
      }
    }
    EXPECT_EQ(worker->status(), absl::OkStatus());
    EXPECT_EQ(cluster.Await(), absl::OkStatus());
    EXPECT_GT(items, 100);
  }

  JobSpec job_ = TinyJob("mlp", testing::TempDir());
};

TEST_P(PinForGpuTest, PinsTheMemoryOfAllItems) {
  Train(/*pins=*/true);
  EXPECT_EQ(emulated_gpu::PinnedBytes(), 0) << "after the job";
}

TEST_P(PinForGpuTest, OtherwiseNothingIsPinned) { Train(/*pins=*/false); }

INSTANTIATE_TEST_SUITE_P(
    Exchanges, PinForGpuTest,
    testing::Values("", "exchange.transport=WIRE",
                    "exchange.compression={eight_bit {}}",
                    "exchange.parameter_server.consistency={local_steps { "
                    "inner_steps: 3 }}",
                    "exchange.parameter_server.consistency={stale_synchronous "
                    "{ staleness: 1 }}",
                    "exchange.all_reduce={backend: GLOO chunk_bytes: 4096}"));

TEST(PinForGpuErrorTest, NamesTheMistakeInAnErrorAndAWarning) {
  const JobSpec job = TinyJob("mlp", testing::TempDir());
  LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/1,
                       testing::TempDir());
  int warnings[2];
  ASSERT_EQ(pipe(warnings), 0);
  Worker::Options options;
  options.coordinator = cluster.coordinator();
  options.warning_fd = warnings[1];
  absl::StatusOr<Worker> worker = Worker::Connect(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_THAT(worker->PinForGpu(9), StatusIs(absl::StatusCode::kNotFound,
                                             HasSubstr("there is no cuda:9")));
  char line[1000] = {};
  ASSERT_GT(read(warnings[0], line, sizeof(line) - 1), 0);
  EXPECT_THAT(line, HasSubstr("memory cannot be pinned"));
  EXPECT_THAT(line, HasSubstr("there is no cuda:9"));
  ModelEngine engine(job);
  ASSERT_EQ(worker->Declare(engine.Declarations()), absl::OkStatus());
  EXPECT_THAT(worker->PinForGpu(0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "PinForGpu was called after Declare; call it before"));
  EXPECT_EQ(engine.Run(&*worker), absl::OkStatus());
  EXPECT_EQ(cluster.Await(), absl::OkStatus());
}

}  // namespace
}  // namespace tributary
