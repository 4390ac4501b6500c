// Worker::UseGpu on the emulated GPU, which runs all work as late as CUDA may.
#include <cuda_runtime.h>
#include <unistd.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/library/model_engine.h"
#include "tests/support/command_runner.h"
#include "tests/support/local_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"
#include "tests/worker/device/cuda/emulation/emulated_memory.h"
#include "tributary/worker.h"

namespace tributary {
namespace {

using ::emulated_gpu::DeviceOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Orders work of CUDA streams as Worker::UseGpu requires.
class Streams {
 public:
  Streams() {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&program_, cudaStreamNonBlocking),
              cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
              cudaSuccess);
  }
  ~Streams() {
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(program_), cudaSuccess);
  }

  // Makes the engine read weights and write gradients with this object.
  void Use(ModelEngine* engine) {
    engine->read_weights = [this](absl::Span<const float> from,
                                  void* gpu_stream, float* to) {
      ASSERT_EQ(DeviceOf(from.data()), 0);
      Read(from, gpu_stream, to);
    };
    engine->give_gradient = [this](MicroBatch* micro_batch, int parameter,
                                   absl::Span<const float> values) {
      ASSERT_EQ(DeviceOf(micro_batch->gradient(parameter).data()), 0);
      Write(values, micro_batch, parameter);
    };
  }
  void Read(absl::Span<const float> weights, void* gpu_stream, float* to) {
    const auto library = static_cast<cudaStream_t>(gpu_stream);
    if (library != nullptr) Order(program_, library);
    EXPECT_EQ(
        cudaMemcpyAsync(to, weights.data(), weights.size() * sizeof(float),
                        cudaMemcpyDeviceToHost, program_),
        cudaSuccess);
    if (library != nullptr) Order(library, program_);
    EXPECT_EQ(cudaStreamSynchronize(program_), cudaSuccess);
  }
  void Write(absl::Span<const float> values, MicroBatch* micro_batch,
             int parameter) {
    float* const to = micro_batch->gradient(parameter).data();
    EXPECT_EQ(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(float),
                              cudaMemcpyHostToDevice, program_),
              cudaSuccess);
    Order(static_cast<cudaStream_t>(micro_batch->gpu_stream()), program_);
    micro_batch->Ready(parameter);
  }

 private:
  // Makes later work of `stream` wait for the present work of `after`.
  void Order(cudaStream_t stream, cudaStream_t after) {
    EXPECT_EQ(cudaEventRecord(event_, after), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream, event_, 0), cudaSuccess);
  }

  cudaStream_t program_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

// How a program takes part in the job.
struct Program {
  bool on_gpu = true;
  // Whether it gives gradients in host memory, by MicroBatch::Add.
  bool adds = false;
};

class UseGpuTest : public testing::Test {
 protected:
  static absl::StatusOr<Worker> Connect(const LocalCluster& cluster) {
    Worker::Options options;
    options.coordinator = cluster.coordinator();
    return Worker::Connect(options);
  }
  static absl::StatusOr<Worker> ConnectOnGpu(const LocalCluster& cluster) {
    absl::StatusOr<Worker> worker = Connect(cluster);
    if (!worker.ok()) return worker;
    EXPECT_EQ(worker->UseGpu(0), absl::OkStatus());
    return worker;
  }

  static void Run(const JobSpec& job, const LocalCluster& cluster,
                  const Program& program) {
    absl::StatusOr<Worker> worker = Connect(cluster);
    ASSERT_TRUE(worker.ok()) << worker.status();
    Streams streams;
    ModelEngine engine(job);
    const auto add = engine.give_gradient;
    if (program.on_gpu) {
      ASSERT_EQ(worker->UseGpu(0), absl::OkStatus());
      streams.Use(&engine);
    }
    if (program.adds) engine.give_gradient = add;
    engine.before_micro_batch = [&](MicroBatch* micro_batch) {
      EXPECT_EQ(micro_batch->gpu_stream() != nullptr, program.on_gpu);
    };
    ASSERT_EQ(worker->Declare(engine.Declarations()), absl::OkStatus());
    EXPECT_EQ(engine.Run(&*worker), absl::OkStatus());
  }

  // Trains the job with `workers` programs. Returns summary.json.
  static nlohmann::json Train(const JobSpec& job, int workers,
                              const Program& program = {}) {
    LocalCluster cluster(job, /*servers=*/1, workers, MakeTestFolder());
    std::vector<std::thread> threads;
    for (int i = 0; i < workers; ++i) {
      threads.emplace_back([&] { Run(job, cluster, program); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(cluster.Await(), absl::OkStatus());
    return cluster.Summary();
  }
  static nlohmann::json TrainOnHost(const JobSpec& job) {
    Program host;
    host.on_gpu = false;
    return Train(job, /*workers=*/1, host);
  }

  static void ExpectSame(const nlohmann::json& a, const nlohmann::json& b) {
    EXPECT_EQ(a["weights_sha256"], b["weights_sha256"]);
    EXPECT_EQ(a["final_loss"], b["final_loss"]);
    EXPECT_EQ(a["evaluation"], b["evaluation"]);
  }

  JobSpec job_ = TinyJob("mlp", testing::TempDir());
};

class UseGpuExchangeTest : public UseGpuTest,
                           public testing::WithParamInterface<std::string> {};

TEST_P(UseGpuExchangeTest, HasTheBitsOfAProgramOnTheHost) {
  if (!GetParam().empty()) {
    ASSERT_EQ(SetField(&job_, GetParam()), absl::OkStatus());
  }
  const nlohmann::json expected = TrainOnHost(job_);
  ExpectSame(Train(job_, /*workers=*/1), expected);
  ExpectSame(Train(job_, /*workers=*/2), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Exchanges, UseGpuExchangeTest,
    testing::Values("", "exchange.transport=WIRE", "clip_norm=0.1",
                    "exchange.wire_dtype=BFLOAT16",
                    "exchange.parameter_server.consistency={local_steps { "
                    "inner_steps: 3 }}",
                    "exchange.all_reduce={chunk_bytes: 4096}"));

// In these exchanges, the result depends on the number of workers.
class UseGpuAloneTest : public UseGpuTest,
                        public testing::WithParamInterface<std::string> {};

TEST_P(UseGpuAloneTest, HasTheBitsOfAProgramOnTheHost) {
  ASSERT_EQ(SetField(&job_, GetParam()), absl::OkStatus());
  ExpectSame(Train(job_, /*workers=*/1), TrainOnHost(job_));
}

INSTANTIATE_TEST_SUITE_P(
    Exchanges, UseGpuAloneTest,
    testing::Values("exchange.compression={eight_bit {}}",
                    "exchange.parameter_server.consistency={asynchronous {}}"));

TEST_F(UseGpuTest, TrainsWithStaleWeights) {
  ASSERT_EQ(SetField(&job_,
                     "exchange.parameter_server.consistency={stale_synchronous "
                     "{ staleness: 1 }}"),
            absl::OkStatus());
  EXPECT_GT(Train(job_, /*workers=*/1)["evaluation"]["accuracy"], 0.6);
}

TEST_F(UseGpuTest, CopiesGradientsFromTheHost) {
  Program adds;
  adds.adds = true;
  ExpectSame(Train(job_, /*workers=*/1, adds), TrainOnHost(job_));
}

TEST_F(UseGpuTest, DividesByTheStatedSampleCounts) {
  const JobSpec job = *ParseJob(
      "model { external { name: 'ones' } } data { external { train_samples: "
      "64 } } optimizer { sgd { learning_rate: 0.5 momentum: 0 } } batch { "
      "global: 16 "
      "micro_batches: 4 } steps: 3",
      "ones");
  LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/1,
                       MakeTestFolder());
  absl::StatusOr<Worker> worker = ConnectOnGpu(cluster);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_EQ(worker->Declare({{"weight", {1}}}), absl::OkStatus());
  Streams streams;
  int micro_batches = 0;
  while (Step* const step = worker->NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      float weight = 1;
      streams.Read(micro_batch.weights(0), micro_batch.gpu_stream(), &weight);
      EXPECT_EQ(weight, static_cast<float>(-step->number()));
      // The sum of a step is 16, which is divided by 8: so each update
      // subtracts 1.
      micro_batch.SetSampleCount(2);
      const float gradient = 4;
      micro_batch.Add(0, {&gradient, 1});
      micro_batch.Finish(0);
      ++micro_batches;
    }
  }
  EXPECT_EQ(worker->status(), absl::OkStatus());
  EXPECT_EQ(cluster.Await(), absl::OkStatus());
  EXPECT_EQ(micro_batches, 12);
}

TEST_F(UseGpuTest, SpansAreEmptyAfterTheEnd) {
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                       MakeTestFolder());
  absl::StatusOr<Worker> worker = ConnectOnGpu(cluster);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ModelEngine engine(job_);
  Streams streams;
  streams.Use(&engine);
  ASSERT_EQ(worker->Declare(engine.Declarations()), absl::OkStatus());
  while (Step* const step = worker->NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      engine.Train(&micro_batch);
      EXPECT_THAT(micro_batch.weights(0), IsEmpty());
      EXPECT_THAT(micro_batch.gradient(0), IsEmpty());
    }
  }
  const auto is_refused =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("after Finish"));
  EXPECT_THAT(worker->status(), is_refused);
  EXPECT_THAT(cluster.Await(), is_refused);
}

TEST_F(UseGpuTest, RefusesALossThatIsNotANumberIfTheGradientsAre) {
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                       MakeTestFolder());
  absl::StatusOr<Worker> worker = ConnectOnGpu(cluster);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ModelEngine engine(job_);
  const std::vector<ParameterDeclaration> declared = engine.Declarations();
  ASSERT_EQ(worker->Declare(declared), absl::OkStatus());
  while (Step* const step = worker->NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      for (int i = 0; i < static_cast<int>(declared.size()); ++i) {
        const std::vector<float> ones(micro_batch.gradient(i).size(), 1.0f);
        micro_batch.Add(i, ones);
      }
      micro_batch.Finish(std::numeric_limits<double>::quiet_NaN());
    }
  }
  const auto is_refused = StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("the loss is NaN"));
  EXPECT_THAT(worker->status(), is_refused);
  EXPECT_THAT(cluster.Await(), is_refused);
}

TEST_F(UseGpuTest, RefusesNccl) {
  ASSERT_EQ(SetField(&job_, "exchange.all_reduce={backend: NCCL}"),
            absl::OkStatus());
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                       MakeTestFolder());
  absl::StatusOr<Worker> worker = ConnectOnGpu(cluster);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ModelEngine engine(job_);
  ASSERT_EQ(worker->Declare(engine.Declarations()), absl::OkStatus());
  EXPECT_THAT(
      engine.Run(&*worker),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("NCCL")));
  EXPECT_THAT(cluster.Await(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("NCCL")));
}

TEST_F(UseGpuTest, NamesTheMemoryThatIsMissing) {
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                       MakeTestFolder());
  absl::StatusOr<Worker> worker = ConnectOnGpu(cluster);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const size_t used =
      emulated_gpu::MemoryBytes() - emulated_gpu::FreeMemoryBytes();
  emulated_gpu::SetMemoryBytes(used + 1000);
  ModelEngine engine(job_);
  ASSERT_EQ(worker->Declare(engine.Declarations()), absl::OkStatus());
  const absl::Status status = engine.Run(&*worker);
  emulated_gpu::SetMemoryBytes(size_t{1} << 40);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("bytes of the memory of cuda:0")));
  EXPECT_THAT(cluster.Await(),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("bytes of the memory of cuda:0")));
}

TEST_F(UseGpuTest, AProgramMayLeaveBeforeAMicroBatchIsFinished) {
  const nlohmann::json expected = TrainOnHost(job_);
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/2,
                       MakeTestFolder());
  std::thread leaves([&] {
    absl::StatusOr<Worker> worker = ConnectOnGpu(cluster);
    ASSERT_TRUE(worker.ok()) << worker.status();
    Streams streams;
    ModelEngine engine(job_);
    ASSERT_EQ(worker->Declare(engine.Declarations()), absl::OkStatus());
    Step* const step = worker->NextStep();
    ASSERT_NE(step, nullptr);
    for (MicroBatch& micro_batch : step->micro_batches()) {
      float weight = 0;
      streams.Read(micro_batch.weights(0).subspan(0, 1),
                   micro_batch.gpu_stream(), &weight);
      break;
    }
  });
  Run(job_, cluster, Program());
  leaves.join();
  EXPECT_EQ(cluster.Await(), absl::OkStatus());
  ExpectSame(cluster.Summary(), expected);
}

TEST_F(UseGpuTest, FreesTheGpusMemory) {
  const size_t before = emulated_gpu::FreeMemoryBytes();
  Train(job_, /*workers=*/1);
  EXPECT_EQ(emulated_gpu::FreeMemoryBytes(), before);
  EXPECT_EQ(emulated_gpu::PinnedBytes(), 0);
}

TEST_F(UseGpuTest, PinsTheHostsMemory) {
  emulated_gpu::MostPinnedBytes();
  Train(job_, /*workers=*/1);
  EXPECT_GT(emulated_gpu::MostPinnedBytes(), 0);
}

TEST_F(UseGpuTest, NamesTheMistakeInAnErrorAndAWarning) {
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                       testing::TempDir());
  int warnings[2];
  ASSERT_EQ(pipe(warnings), 0);
  Worker::Options options;
  options.coordinator = cluster.coordinator();
  options.warning_fd = warnings[1];
  absl::StatusOr<Worker> worker = Worker::Connect(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_EQ(worker->UseGpu(0), absl::OkStatus());
  EXPECT_THAT(worker->UseGpu(9), StatusIs(absl::StatusCode::kNotFound,
                                          HasSubstr("there is no cuda:9")));
  char line[1000] = {};
  ASSERT_GT(read(warnings[0], line, sizeof(line) - 1), 0);
  EXPECT_THAT(line, HasSubstr("in host memory"));
  EXPECT_THAT(line, HasSubstr("there is no cuda:9"));
  ModelEngine engine(job_);
  engine.before_micro_batch = [](MicroBatch* micro_batch) {
    EXPECT_EQ(micro_batch->gpu_stream(), nullptr);
    EXPECT_EQ(DeviceOf(micro_batch->weights(0).data()), -1);
  };
  ASSERT_EQ(worker->Declare(engine.Declarations()), absl::OkStatus());
  EXPECT_THAT(worker->UseGpu(0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "UseGpu was called after Declare; call it before"));
  EXPECT_EQ(engine.Run(&*worker), absl::OkStatus());
  EXPECT_EQ(cluster.Await(), absl::OkStatus());
}

}  // namespace
}  // namespace tributary
