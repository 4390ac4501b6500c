#include "tests/integration/gpu_servers.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "common/update/block_pass.h"
#include "tests/support/command_runner.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

constexpr char kAdamW[] = "{adamw {learning_rate: 0.01 weight_decay: 0.1}}";

// The path of the earliest checkpoint of the run in `output`.
std::string FirstCheckpoint(const std::string& output) {
  std::string first;
  for (const auto& entry :
       std::filesystem::directory_iterator(output + "/checkpoints")) {
    const std::string path = entry.path().string();
    if (!absl::StrContains(path, "/step-")) continue;
    if (first.empty() || path < first) first = path;
  }
  return first;
}

// Checks whether the machine has such a device.
absl::Status Try(const ChunkPassMaker& make) {
  ParameterTable table;
  table.set_chunk_elements(1024);
  table.add_parameter()->set_name("p");
  table.mutable_parameter(0)->add_shape(1);
  table.mutable_parameter(0)->set_group(DECAY);
  const ArenaLayout layout = *ArenaLayout::Create(table);
  JobSpec job;
  job.mutable_batch()->set_micro_batches(1);
  job.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  const std::unique_ptr<Optimizer> optimizer =
      *Optimizer::Create(job.optimizer());
  return make({&job, &layout, {0}, optimizer.get()}).status();
}

}  // namespace

void GpuServersTest::SetUp() {
  const absl::Status there = Try(GetParam().make_passes);
  if (absl::IsFailedPrecondition(there)) GTEST_SKIP() << there;
  ASSERT_TRUE(there.ok()) << there;
  job_ = TinyJob("mlp", MakeTestFolder());
  job_.clear_epochs();
  job_.set_steps(GetParam().steps);
}

void GpuServersTest::Set(const std::string& path, const std::string& value) {
  ASSERT_EQ(SetField(&job_, absl::StrCat(path, "=", value)), absl::OkStatus());
}

std::string GpuServersTest::Train(const Cluster& cluster, std::string* output) {
  ClusterServers servers;
  if (!cluster.on_cpu) servers.make_passes = GetParam().make_passes;
  servers.resume_from = cluster.resume_from;
  const std::string directory = MakeTestFolder();
  if (output != nullptr) *output = directory;
  LocalCluster local(job_, cluster.servers, cluster.workers, directory,
                     /*security=*/{}, servers);
  for (int i = 0; i < cluster.workers; ++i) local.StartWorker();
  EXPECT_EQ(local.Await(), absl::OkStatus());
  return local.Summary().value("weights_sha256", "none");
}

void GpuServersTest::ExpectTheCpusBits(const Cluster& cluster) {
  Cluster on_cpu = cluster;
  on_cpu.on_cpu = true;
  const std::string expected = Train(on_cpu);
  EXPECT_EQ(expected.size(), 64u);
  EXPECT_EQ(Train(cluster), expected);
}

TEST_P(GpuServersTest, TheServersDeviceDoesNotDecideTheResult) {
  ExpectTheCpusBits();
  Set("optimizer", kAdamW);
  ExpectTheCpusBits();
  ExpectTheCpusBits({/*servers=*/3, /*workers=*/3});
  Set("exchange.transport", "WIRE");
  ExpectTheCpusBits({/*servers=*/2, /*workers=*/1});
}

TEST_P(GpuServersTest, NorWithClipping) {
  Set("optimizer", kAdamW);
  Set("clip_norm", "0.5");
  ExpectTheCpusBits({/*servers=*/2});
}

TEST_P(GpuServersTest, NorWithNumbersOf16BitsOnTheWire) {
  for (const char* dtype : {"BFLOAT16", "FLOAT16"}) {
    Set("exchange.wire_dtype", dtype);
    for (const char* transport : {"AUTO", "WIRE"}) {
      Set("exchange.transport", transport);
      ExpectTheCpusBits();
    }
  }
}

// With one worker, because compressed results depend on the number of workers.
TEST_P(GpuServersTest, NorWithCompression) {
  for (const char* method : {"{top_k {fraction: 0.05}}", "{eight_bit {}}"}) {
    Set("exchange.compression", method);
    ExpectTheCpusBits({/*servers=*/1, /*workers=*/1});
  }
}

TEST_P(GpuServersTest, NorInOtherModes) {
  for (const char* mode :
       {"{local_steps {inner_steps: 3}}", "{stale_synchronous {staleness: 0}}",
        "{asynchronous {}}"}) {
    Set("exchange.parameter_server.consistency", mode);
    ExpectTheCpusBits({/*servers=*/1, /*workers=*/1});
  }
}

TEST_P(GpuServersTest, NorWhereServersKeepEachOthersState) {
  Set("optimizer", kAdamW);
  Set("recovery.journal", "true");
  ExpectTheCpusBits({/*servers=*/2});
}

TEST_P(GpuServersTest, NorWithRunningStatistics) {
  job_ = TinyJob("resnet", MakeTestFolder());
  job_.clear_epochs();
  job_.set_steps(3);
  ExpectTheCpusBits();
}

TEST_P(GpuServersTest, NorWhereStepsAreLeftOut) {
  Set("optimizer", "{sgd {learning_rate: 1e6}}");
  Set("on_nonfinite", "SKIP");
  job_.set_steps(12);
  job_.clear_evaluation();
  job_.mutable_evaluation()->set_disabled(true);
  ExpectTheCpusBits({/*servers=*/2});
}

TEST_P(GpuServersTest, EitherKindGoesOnFromTheOthersCheckpoint) {
  Set("optimizer", kAdamW);
  const std::string expected = Train({1, 2, /*on_cpu=*/true});
  // A checkpoint that a server passes before it hears of it is taken later, so
  // the first one is of this step or of one after it.
  job_.mutable_checkpoint()->set_every_steps(GetParam().steps / 2);
  job_.mutable_checkpoint()->set_keep_last(0);
  for (const bool on_cpu : {false, true}) {
    std::string output;
    EXPECT_EQ(Train({1, 2, on_cpu}, &output), expected);
    const std::string first = FirstCheckpoint(output);
    EXPECT_EQ(Train({2, 1, !on_cpu, first}), expected);
    EXPECT_EQ(Train({1, 2, on_cpu, first}), expected);
  }
}

}  // namespace tributary
