// Local SGD (DiLoCo) on whole clusters: the result is that of the algorithm,
// does not depend on the machines, and takes a fraction of the bytes.
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/job/job.h"
#include "common/tensor_io/safetensors_file.h"
#include "gtest/gtest.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_until_it_hits.h"
#include "tests/support/tiny_jobs.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

constexpr char kMode[] = "exchange.parameter_server.consistency.local_steps";

void LocalStepsSet(JobSpec* job, const std::string& field) {
  ASSERT_EQ(SetField(job, field), absl::OkStatus());
}

class LocalStepsTest : public ::testing::Test {
 protected:
  static std::string Directory(const std::string& name) {
    const std::string path =
        absl::StrCat(::testing::TempDir(), "/local-", name);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
    return path;
  }

  struct Result {
    nlohmann::json summary;
    std::string directory;
  };

  static Result Await(LocalCluster* cluster, const std::string& directory) {
    EXPECT_EQ(cluster->Await(), absl::OkStatus());
    return {cluster->Summary(), directory};
  }

  static Result Run(const JobSpec& job, const std::string& name, int workers,
                    int servers, int threads = 1) {
    const std::string directory = Directory(name);
    LocalCluster cluster(job, servers, workers, directory);
    for (int i = 0; i < workers; ++i) cluster.StartWorker(threads);
    return Await(&cluster, directory);
  }

  static void ExpectSame(const Result& a, const Result& b) {
    EXPECT_EQ(a.summary["weights_sha256"], b.summary["weights_sha256"]);
    EXPECT_EQ(a.summary["final_loss"], b.summary["final_loss"]);
    EXPECT_EQ(a.summary["evaluation"], b.summary["evaluation"]);
  }
};

// Softmax regression (an mlp without hidden layers) in double precision.
class Reference {
 public:
  using Vector = std::vector<double>;

  explicit Reference(const JobSpec& job)
      : setup_(*TrainingSetup::Create(ResolveJob(job), /*threads=*/1)) {
    std::vector<float> arena(setup_->layout().arena_elements());
    setup_->model(0)->Initialize(job.seed(), setup_->layout(), arena.data());
    weights_.assign(arena.begin(), arena.end());
  }

  // Trains by DiLoCo with SGD (momentum, weight decay) as the inner optimizer
  // and Nesterov momentum as the outer one.
  void Train(int inner_steps, double outer_rate, double outer_momentum) {
    const SgdSpec& sgd = setup_->job().optimizer().sgd();
    const int64_t steps = setup_->facts().steps();
    const int micro_batches =
        static_cast<int>(setup_->job().batch().micro_batches());
    Vector velocity(weights_.size());
    for (int64_t begin = 0; begin < steps; begin += inner_steps) {
      Vector outer(weights_.size());
      double total = 0;
      for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
        Vector w = weights_;
        Vector v(w.size());
        double samples = 0;
        const int64_t end = std::min(begin + inner_steps, steps);
        for (int64_t step = begin; step < end; ++step) {
          const Sampler::MicroBatch which =
              setup_->sampler().MicroBatchOf(step, micro_batch);
          if (which.indexes.empty()) continue;
          Batch batch;
          setup_->data().ReadTrain(which.epoch, which.indexes, &batch);
          const Vector g = MeanGradient(batch, w);
          for (size_t i = 0; i < w.size(); ++i) {
            const double decay = i < biases() ? sgd.weight_decay() * w[i] : 0;
            v[i] = sgd.momentum() * v[i] + g[i] + decay;
            w[i] -= sgd.learning_rate() * v[i];
          }
          samples += batch.samples;
        }
        for (size_t i = 0; i < w.size(); ++i) {
          outer[i] += samples * (weights_[i] - w[i]);
        }
        total += samples;
      }
      for (size_t i = 0; i < weights_.size(); ++i) {
        const double g = outer[i] / total;
        velocity[i] = outer_momentum * velocity[i] + g;
        weights_[i] -= outer_rate * (g + outer_momentum * velocity[i]);
      }
    }
  }

  // Compares with the model in a run's folder.
  void ExpectEqual(const std::string& directory, double tolerance) const {
    const auto file =
        SafetensorsFile::Open(directory + "/final/model.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    double largest = 0;
    for (const Parameter& parameter : setup_->layout().parameters()) {
      std::vector<float> values(parameter.size);
      ASSERT_TRUE(
          file->ReadFloats(**file->Find(parameter.name), absl::MakeSpan(values))
              .ok());
      for (int64_t i = 0; i < parameter.size; ++i) {
        ASSERT_NEAR(values[i], weights_[parameter.offset + i], tolerance)
            << parameter.name << " " << i;
        largest = std::max(largest, std::abs(double{values[i]}));
      }
    }
    EXPECT_GT(largest, 0.1);  // The weights have changed.
  }

 private:
  static constexpr int kFeatures = 4;
  static constexpr int kClasses = 3;

  // Offset of the second parameter.
  size_t biases() const { return setup_->layout().parameters()[1].offset; }

  // The weight matrix is [classes, features].
  Vector MeanGradient(const Batch& batch, const Vector& w) const {
    Vector g(w.size());
    for (int64_t n = 0; n < batch.samples; ++n) {
      const float* x = &batch.features[n * kFeatures];
      double p[kClasses];
      double sum = 0;
      for (int c = 0; c < kClasses; ++c) {
        double logit = w[biases() + c];
        for (int f = 0; f < kFeatures; ++f)
          logit += w[c * kFeatures + f] * x[f];
        p[c] = std::exp(logit);
        sum += p[c];
      }
      for (int c = 0; c < kClasses; ++c) {
        const double d = (p[c] / sum - (batch.labels[n] == c)) /
                         static_cast<double>(batch.samples);
        g[biases() + c] += d;
        for (int f = 0; f < kFeatures; ++f) g[c * kFeatures + f] += d * x[f];
      }
    }
    return g;
  }

  std::unique_ptr<TrainingSetup> setup_;
  Vector weights_;
};

TEST_F(LocalStepsTest, IsDiLoCo) {
  JobSpec job = TinyJob("mlp", Directory("reference-data"));
  LocalStepsSet(&job, "model.mlp={}");
  // The last round is short, and so is the last batch of each epoch of seven
  // steps. Such a batch has samples for two micro-batches only, which count in
  // the mean of the whole round.
  LocalStepsSet(
      &job, absl::StrCat(kMode,
                         "={ inner_steps: 4 outer_optimizer { learning_rate: "
                         "0.6 momentum: 0.5 } }"));
  Reference reference(job);
  reference.Train(/*inner_steps=*/4, /*outer_rate=*/0.6,
                  /*outer_momentum=*/0.5);
  const Result result = Run(job, "reference", /*workers=*/2, /*servers=*/1);
  EXPECT_EQ(result.summary.value("steps", 0), 30);
  // 30 steps, each with a few float32 roundings of numbers of order 1.
  reference.ExpectEqual(result.directory, 1e-5);
}

TEST_F(LocalStepsTest, RoundsOfOneStepWithoutMomentumAreSynchronousSgd) {
  // A residual network's evaluation also shows its running statistics.
  for (const char* family : {"cnn", "resnet"}) {
    SCOPED_TRACE(family);
    JobSpec job =
        TinyJob(family, Directory(absl::StrCat("single-data-", family)));
    LocalStepsSet(&job, "optimizer.sgd={learning_rate: 0.1 momentum: 0}");
    LocalStepsSet(&job,
                  "clip_norm=0");  // Would clip by micro-batch, not by batch.
    const Result synchronous = Run(job, "synchronous", 1, 1);
    LocalStepsSet(
        &job, absl::StrCat(kMode,
                           "={ inner_steps: 1 outer_optimizer { learning_rate: "
                           "1 momentum: 0 nesterov: false } }"));
    const Result local = Run(job, "single", 1, 1);
    // Equal after 30 steps except for rounding.
    EXPECT_NEAR(local.summary.value("final_loss", 0.0),
                synchronous.summary.value("final_loss", 1.0), 1e-4);
    EXPECT_NEAR(local.summary["evaluation"].value("loss", 0.0),
                synchronous.summary["evaluation"].value("loss", 1.0), 1e-4);
  }
}

TEST_F(LocalStepsTest, SendsAFractionOfTheBytesAndCountsInnerSteps) {
  JobSpec job = TinyJob("mlp", Directory("bytes-data"));
  job.set_steps(400);
  LocalStepsSet(&job,
                "exchange.transport=WIRE");  // Shared memory sends no bytes.
  const Result synchronous = Run(job, "bytes-synchronous", 1, 1);
  LocalStepsSet(&job, absl::StrCat(kMode, "={ inner_steps: 20 }"));
  // Every 15 steps, rounded up to a whole round.
  LocalStepsSet(&job, "evaluation.every_steps=15");
  const Result local = Run(job, "bytes", 1, 1);
  for (const char* way : {"bytes_sent", "bytes_received"}) {
    EXPECT_LT(15 * local.summary.value(way, int64_t{1}),
              synchronous.summary.value(way, int64_t{0}))
        << way;
  }
  EXPECT_EQ(local.summary.value("steps", 0), 400);
  EXPECT_EQ(local.summary["evaluation"].value("step", 0), 400);
  std::ifstream file(local.directory + "/metrics.jsonl");
  std::string line;
  std::vector<int> evaluated;
  std::vector<int> trained;
  while (std::getline(file, line)) {
    const nlohmann::json json = ParseJson(line);
    (json.contains("loss") ? trained : evaluated).push_back(json["step"]);
  }
  ASSERT_EQ(evaluated.size(), 20u);
  EXPECT_EQ(evaluated[0], 20);
  EXPECT_EQ(evaluated[1], 40);
  ASSERT_EQ(trained.size(), 20u);
  EXPECT_EQ(trained[0], 20);
}

class LocalStepsDeterminismTest
    : public LocalStepsTest,
      public ::testing::WithParamInterface<const char*> {
 protected:
  // Returns a job with rounds of three steps; the last round has two.
  JobSpec Job(int64_t steps) {
    JobSpec job =
        TinyJob(GetParam(), Directory(absl::StrCat(GetParam(), "-data")));
    job.set_steps(steps);
    LocalStepsSet(&job, absl::StrCat(kMode, "={ inner_steps: 3 }"));
    return job;
  }
};

TEST_P(LocalStepsDeterminismTest, AnyMachinesGiveTheSameBits) {
  const JobSpec job = Job(29);
  const Result expected = Run(job, "1", 1, 1);
  EXPECT_EQ(expected.summary.value("weights_sha256", "").size(), 64u);
  for (const auto& [workers, servers, threads] :
       std::vector<std::tuple<int, int, int>>{
           {1, 3, 1}, {2, 1, 1}, {3, 2, 1}, {5, 1, 1}, {1, 1, 4}, {2, 2, 3}}) {
    SCOPED_TRACE(absl::StrCat(workers, " workers, ", servers, " servers, ",
                              threads, " threads"));
    ExpectSame(
        Run(job, absl::StrCat(GetParam(), workers, "x", servers, "x", threads),
            workers, servers, threads),
        expected);
  }
}

TEST_P(LocalStepsDeterminismTest, LosingWorkersInMidRoundGivesTheSameBits) {
  const JobSpec job = Job(300);
  const Result expected = Run(job, absl::StrCat(GetParam(), "-calm"), 1, 1);
  const std::string directory = Directory(absl::StrCat(GetParam(), "-churn"));
  RunUntilItHits([&] {
    LocalCluster cluster(job, /*servers=*/2, /*expected_workers=*/3, directory);
    for (int i = 0; i < 3; ++i) cluster.StartWorker();
    for (int worker = 0; worker < 6; ++worker) {
      cluster.AwaitStep(3 + 15 * worker);
      cluster.KillWorker(worker);
      cluster.StartWorker();
    }
    const Result result = Await(&cluster, directory);
    ExpectSame(result, expected);
    return result.summary.value("workers_lost", 0) >= 1;
  });
}

INSTANTIATE_TEST_SUITE_P(Families, LocalStepsDeterminismTest,
                         ::testing::Values("mlp", "cnn", "resnet", "gpt"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace tributary
