// The first promise: the result depends on the job, not on the machines.
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_until_it_hits.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

class DeterminismTest : public ::testing::TestWithParam<const char*> {
 protected:
  DeterminismTest() : job_(TinyJob(GetParam(), Directory("data"))) {}

  static std::string Directory(const std::string& name) {
    const std::string path =
        absl::StrCat(::testing::TempDir(), "/", GetParam(), "-", name);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
    return path;
  }

  struct Result {
    std::string digest;
    double loss = 0;
    double evaluation_loss = 0;
  };

  static Result ResultOf(LocalCluster* cluster, int64_t steps = 30) {
    EXPECT_EQ(cluster->Await(), absl::OkStatus());
    const nlohmann::json summary = cluster->Summary();
    EXPECT_EQ(summary.value("steps", 0), steps);
    return {summary.value("weights_sha256", "none"),
            summary.value("final_loss", -1.0),
            summary["evaluation"].value("loss", -1.0)};
  }

  static void ExpectSame(const Result& a, const Result& b) {
    EXPECT_EQ(a.digest, b.digest);
    EXPECT_EQ(a.evaluation_loss, b.evaluation_loss);
    // Losses are also added in the order of the tree.
    EXPECT_EQ(a.loss, b.loss);
  }

  Result Run(int workers, int servers, int threads = 1) {
    LocalCluster cluster(
        job_, servers, workers,
        Directory(absl::StrCat(workers, "x", servers, "x", threads)));
    for (int i = 0; i < workers; ++i) cluster.StartWorker(threads);
    return ResultOf(&cluster);
  }

  JobSpec job_;
};

// The table of (workers, servers), over one transport.
class TableTest : public DeterminismTest {
 protected:
  void ExpectTheSameBits(ExchangeSpec::Transport transport) {
    job_.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
    const Result expected = Run(/*workers=*/1, /*servers=*/1);
    EXPECT_EQ(expected.digest.size(), 64);
    job_.mutable_exchange()->set_transport(transport);
    // With 16 bits, a third of the table: who adds what depends on the numbers
    // of processes alone.
    const bool all = job_.exchange().wire_dtype() == ExchangeSpec::FLOAT32 &&
                     job_.precision() == JobSpec::FLOAT32;
    for (int workers = 1; workers <= 5; ++workers) {
      for (int servers = 1; servers <= 3; ++servers) {
        if (!all && workers % 3 != servers % 3) continue;
        SCOPED_TRACE(absl::StrCat(workers, " workers, ", servers, " servers"));
        ExpectSame(Run(workers, servers), expected);
      }
    }
  }
};

TEST_P(TableTest, HoldsOnTheWire) { ExpectTheSameBits(ExchangeSpec::WIRE); }

TEST_P(TableTest, HoldsInSharedMemory) {
  ExpectTheSameBits(ExchangeSpec::MEMORY);
}

TEST_P(TableTest, HoldsWith16BitsOnTheWireAndInSharedMemory) {
  for (const auto dtype : {ExchangeSpec::BFLOAT16, ExchangeSpec::FLOAT16}) {
    job_.mutable_exchange()->set_wire_dtype(dtype);
    ExpectTheSameBits(ExchangeSpec::WIRE);
    ExpectTheSameBits(ExchangeSpec::MEMORY);
  }
}

TEST_P(TableTest, HoldsWhenWorkersComputeInBfloat16) {
  job_.set_precision(JobSpec::BFLOAT16);
  ExpectTheSameBits(ExchangeSpec::MEMORY);
}

TEST_P(TableTest, EachNumberFormatHasItsOwnBits) {
  std::set<std::string> digests;
  for (const ExchangeSpec::WireDtype dtype :
       {ExchangeSpec::FLOAT32, ExchangeSpec::BFLOAT16, ExchangeSpec::FLOAT16}) {
    job_.mutable_exchange()->set_wire_dtype(dtype);
    for (const JobSpec::Precision precision :
         {JobSpec::FLOAT32, JobSpec::BFLOAT16}) {
      job_.set_precision(precision);
      digests.insert(Run(/*workers=*/2, /*servers=*/1).digest);
    }
  }
  EXPECT_EQ(digests.size(), 6);
}

TEST_P(DeterminismTest, UnixSocketsGiveTheSameBits) {
  const Result expected = Run(/*workers=*/1, /*servers=*/1);
  job_.mutable_exchange()->set_transport(ExchangeSpec::UNIX_SOCKET);
  ExpectSame(Run(/*workers=*/3, /*servers=*/2), expected);
}

TEST_P(DeterminismTest, AnyNumberOfThreadsGivesTheSameBits) {
  // In bfloat16, threads share copies of the weights.
  for (const JobSpec::Precision precision :
       {JobSpec::FLOAT32, JobSpec::BFLOAT16}) {
    job_.set_precision(precision);
    const Result expected = Run(/*workers=*/1, /*servers=*/1);
    for (int threads = 2; threads <= 4; ++threads) {
      SCOPED_TRACE(absl::StrCat(threads, " threads"));
      ExpectSame(Run(/*workers=*/2, /*servers=*/1, threads), expected);
    }
  }
}

TEST_P(DeterminismTest, OtherSeedsGiveOtherBits) {
  const Result expected = Run(/*workers=*/1, /*servers=*/1);
  job_.set_seed(2);
  EXPECT_NE(Run(/*workers=*/1, /*servers=*/1).digest, expected.digest);
}

// Usually enough that every event at a step happens before the job's end.
constexpr int64_t kManySteps = 200;

class ChurnTest : public DeterminismTest {
 protected:
  ChurnTest() { job_.set_steps(kManySteps); }

  Result Undisturbed() {
    LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                         Directory("undisturbed"));
    cluster.StartWorker();
    return ResultOf(&cluster, kManySteps);
  }

  void ExpectThatResumingGivesTheSameBits(int workers, int servers);

  // From step `at` on, two of three workers fail and two others join.
  void LoseAndGain(int at, const Result& expected) {
    SCOPED_TRACE(absl::StrCat("at step ", at));
    RunUntilItHits([&] {
      LocalCluster cluster(job_, /*servers=*/2, /*expected_workers=*/3,
                           Directory(absl::StrCat("churn-", at)));
      for (int i = 0; i < 3; ++i) cluster.StartWorker();
      cluster.AwaitStep(at);
      cluster.KillWorker(1);
      cluster.StartWorker();
      cluster.AwaitStep(at + 1);
      cluster.KillWorker(0);
      cluster.StartWorker();
      ExpectSame(ResultOf(&cluster, kManySteps), expected);
      return cluster.Summary().value("workers_lost", 0) >= 1;
    });
  }
};

TEST_P(ChurnTest, LosingAndGainingWorkersInMidRunGivesTheSameBits) {
  const Result expected = Undisturbed();
  for (int at = 1; at < 30; at += 4) LoseAndGain(at, expected);
}

TEST_P(ChurnTest, LosingAndGainingWorkersGivesTheSameBitsInBfloat16) {
  job_.mutable_exchange()->set_wire_dtype(ExchangeSpec::BFLOAT16);
  for (const ExchangeSpec::Transport transport :
       {ExchangeSpec::WIRE, ExchangeSpec::MEMORY}) {
    job_.mutable_exchange()->set_transport(transport);
    const Result expected = Undisturbed();
    for (const int at : {2, 9}) LoseAndGain(at, expected);
  }
}

TEST_P(DeterminismTest, AssignmentBySpeedGivesTheSameBits) {
  job_.set_steps(kManySteps);
  LocalCluster alone(job_, /*servers=*/1, /*expected_workers=*/1,
                     Directory("alone"));
  alone.StartWorker();
  const Result expected = ResultOf(&alone, kManySteps);
  LocalCluster cluster(job_, /*servers=*/2, /*expected_workers=*/3,
                       Directory("slow"));
  cluster.StartWorker();
  cluster.StartSlowWorker(/*slowness=*/6);
  cluster.StartWorker();
  ExpectSame(ResultOf(&cluster, kManySteps), expected);
  EXPECT_GE(cluster.Summary().value("deals_by_speed", 0), 1);
}

TEST_P(ChurnTest, EveryWorkerReplacedGivesTheSameBits) {
  const Result expected = Undisturbed();
  RunUntilItHits([&] {
    LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                         Directory("replaced"));
    int worker = cluster.StartWorker();
    for (const int at : {3, 11, 12, 13, 20}) {
      cluster.AwaitStep(at);
      cluster.KillWorker(worker);
      worker = cluster.StartWorker();
    }
    ExpectSame(ResultOf(&cluster, kManySteps), expected);
    return cluster.Summary().value("workers_lost", 0) >= 1;
  });
}

// Resumes the job from each of its checkpoints, with other machines.
void ChurnTest::ExpectThatResumingGivesTheSameBits(int workers, int servers) {
  job_.mutable_checkpoint()->set_every_steps(10);
  job_.mutable_checkpoint()->set_keep_last(10);
  const std::string machines = absl::StrCat(workers, "x", servers);
  const std::string folder = Directory(absl::StrCat("before-", machines));
  LocalCluster whole(job_, /*servers=*/2, /*expected_workers=*/2, folder);
  for (int i = 0; i < 2; ++i) whole.StartWorker();
  const Result expected = ResultOf(&whole);
  const auto checkpoints = ListCheckpoints(CheckpointsFolder(folder));
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
  EXPECT_LT(checkpoints->back().step, job_.steps());
  for (const CheckpointName& checkpoint : *checkpoints) {
    if (checkpoint.step == job_.steps()) continue;
    ClusterServers how;
    how.resume_from = checkpoint.path;
    LocalCluster cluster(
        job_, servers, workers,
        Directory(absl::StrCat("after-", machines, "-", checkpoint.step)), {},
        how);
    for (int i = 0; i < workers; ++i) cluster.StartWorker();
    EXPECT_EQ(ResultOf(&cluster).digest, expected.digest);
  }
}

// LAMB, whose steps depend on the norms of whole parameters, which lie in
// chunks of several servers.
class LambTest : public ChurnTest {
 protected:
  LambTest() {
    job_.set_steps(30);
    job_.clear_clip_norm();
    LambSpec* const lamb = job_.mutable_optimizer()->mutable_lamb();
    lamb->set_learning_rate(0.01);
    lamb->set_weight_decay(0.1);
  }
};

TEST_P(LambTest, AnyClusterGivesTheSameBits) {
  const Result expected = Run(/*workers=*/1, /*servers=*/1);
  EXPECT_EQ(expected.digest.size(), 64);
  ExpectSame(Run(/*workers=*/2, /*servers=*/3), expected);
  ExpectSame(Run(/*workers=*/4, /*servers=*/2, /*threads=*/2), expected);
  job_.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  ExpectSame(Run(/*workers=*/3, /*servers=*/2), expected);
  job_.mutable_recovery()->set_journal(true);
  ExpectSame(Run(/*workers=*/2, /*servers=*/2), expected);
}

TEST_P(LambTest, AnAllReduceGivesTheSameBits) {
  const Result expected = Run(/*workers=*/1, /*servers=*/1);
  AllReduceSpec* const all_reduce =
      job_.mutable_exchange()->mutable_all_reduce();
  all_reduce->set_backend(AllReduceSpec::GLOO);
  // The parts of a norm are those of the chunks.
  all_reduce->set_chunk_bytes(4096);
  for (const bool shard_optimizer : {false, true}) {
    all_reduce->set_shard_optimizer(shard_optimizer);
    for (const int workers : {1, 2, 4}) {
      SCOPED_TRACE(absl::StrCat(workers, " ", shard_optimizer));
      ExpectSame(Run(workers, /*servers=*/1), expected);
    }
  }
}

TEST_P(LambTest, LosingAndGainingWorkersGivesTheSameBits) {
  job_.set_steps(kManySteps);
  const Result expected = Undisturbed();
  for (const int at : {2, 9}) LoseAndGain(at, expected);
}

TEST_P(LambTest, ResumingGivesTheSameBits) {
  ExpectThatResumingGivesTheSameBits(/*workers=*/1, /*servers=*/3);
}

// The schedule PLATEAU, whose learning rate depends on evaluations.
class PlateauTest : public ChurnTest {
 protected:
  PlateauTest() {
    job_.set_steps(30);
    job_.mutable_evaluation()->set_every_steps(6);
    job_.clear_schedule();
    ScheduleSpec* const schedule = job_.mutable_schedule();
    schedule->set_decay(ScheduleSpec::PLATEAU);
    schedule->set_warmup_steps(5);
    schedule->set_decay_factor(0.8);
    schedule->set_patience(0);
    // So much better is no evaluation.
    schedule->set_threshold(0.5);
  }
};

TEST_P(PlateauTest, AnyClusterGivesTheSameBits) {
  const Result expected = Run(/*workers=*/1, /*servers=*/1);
  ExpectSame(Run(/*workers=*/2, /*servers=*/3), expected);
  ExpectSame(Run(/*workers=*/4, /*servers=*/2, /*threads=*/2), expected);
  AllReduceSpec* const all_reduce =
      job_.mutable_exchange()->mutable_all_reduce();
  all_reduce->set_backend(AllReduceSpec::GLOO);
  all_reduce->set_chunk_bytes(4096);
  ExpectSame(Run(/*workers=*/1, /*servers=*/1), expected);
  ExpectSame(Run(/*workers=*/3, /*servers=*/1), expected);
}

TEST_P(PlateauTest, LowersTheLearningRate) {
  const Result lowered = Run(/*workers=*/1, /*servers=*/1);
  job_.mutable_schedule()->set_patience(10);
  const Result constant = Run(/*workers=*/2, /*servers=*/1);
  EXPECT_NE(lowered.digest, constant.digest);
  job_.clear_schedule();
  job_.mutable_schedule()->set_warmup_steps(5);
  EXPECT_EQ(Run(/*workers=*/1, /*servers=*/2).digest, constant.digest);
}

TEST_P(PlateauTest, LosingAndGainingWorkersGivesTheSameBits) {
  job_.set_steps(kManySteps);
  const Result expected = Undisturbed();
  for (const int at : {2, 11}) LoseAndGain(at, expected);
}

TEST_P(PlateauTest, ResumingGivesTheSameBits) {
  ExpectThatResumingGivesTheSameBits(/*workers=*/3, /*servers=*/1);
}

const auto kQuick = ::testing::Values("mlp");
const auto kSlow = ::testing::Values("cnn", "resnet", "gpt", "bert");
const auto kName = [](const auto& info) { return std::string(info.param); };
INSTANTIATE_TEST_SUITE_P(Families, DeterminismTest, kQuick, kName);
INSTANTIATE_TEST_SUITE_P(SlowFamilies, DeterminismTest, kSlow, kName);
INSTANTIATE_TEST_SUITE_P(Families, TableTest, kQuick, kName);
INSTANTIATE_TEST_SUITE_P(SlowFamilies, TableTest, kSlow, kName);
INSTANTIATE_TEST_SUITE_P(Families, ChurnTest, kQuick, kName);
INSTANTIATE_TEST_SUITE_P(SlowFamilies, ChurnTest, kSlow, kName);
INSTANTIATE_TEST_SUITE_P(Families, LambTest, kQuick, kName);
INSTANTIATE_TEST_SUITE_P(SlowFamilies, LambTest, kSlow, kName);
INSTANTIATE_TEST_SUITE_P(Families, PlateauTest, kQuick, kName);
INSTANTIATE_TEST_SUITE_P(SlowFamilies, PlateauTest, kSlow, kName);

}  // namespace
}  // namespace tributary
