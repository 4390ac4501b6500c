// The effect of the exchange on the weights, compared with a closed form. The
// synthetic model's gradients are known and have few bits, so every sum, mean
// and step is exact, and a lost, doubled or misplaced chunk shows.
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/job/job.h"
#include "common/tensor_io/safetensors_file.h"
#include "gtest/gtest.h"
#include "tests/support/local_cluster.h"

namespace tributary {
namespace {

// The last chunk is short.
constexpr int64_t kParameters = 10007;
constexpr int kChunks = 10;
constexpr int kSyntheticExchangeSteps = 7;
constexpr double kLearningRate = 0.125;
constexpr double kMomentum = 0.5;

// 40 samples: every third batch is half full, and half of its micro-batches are
// empty.
JobSpec SyntheticExchangeJob() {
  const absl::StatusOr<JobSpec> job = ParseJob(
      absl::StrCat("model { synthetic { parameters: ", kParameters,
                   " } } data { random { samples: 40 } } "
                   "batch { global: 16 micro_batches: 8 } "
                   "optimizer { sgd { learning_rate: ",
                   kLearningRate, " momentum: ", kMomentum,
                   " } } steps: ", kSyntheticExchangeSteps,
                   " exchange { parameter_server { chunk_bytes: 4096 } }"),
      "job");
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

// At every step the mean gradient equals that of one sample.
std::vector<float> ExpectedWeights() {
  std::vector<float> weights(kParameters);
  for (int64_t i = 0; i < kParameters; ++i) {
    double velocity = 0;
    double weight = 0;
    for (int step = 0; step < kSyntheticExchangeSteps; ++step) {
      velocity = kMomentum * velocity + static_cast<double>(i % 251 + 1) / 256;
      weight -= kLearningRate * velocity;
    }
    weights[i] = static_cast<float>(weight);
    EXPECT_EQ(weights[i], weight) << "has too many bits for float32";
  }
  return weights;
}

std::vector<float> TrainedWeights(const std::string& directory) {
  const absl::StatusOr<SafetensorsFile> file =
      SafetensorsFile::Open(directory + "/final/model.safetensors");
  if (!file.ok()) {
    ADD_FAILURE() << file.status();
    return {};
  }
  std::vector<float> weights(kParameters);
  EXPECT_EQ(file->ReadFloats(**file->Find("weights"), absl::MakeSpan(weights)),
            absl::OkStatus());
  return weights;
}

TEST(SyntheticExchangeTest, WeightsAreWhatTheRuleOfSgdSays) {
  const std::vector<float> expected = ExpectedWeights();
  for (const int workers : {1, 2, 3, 5}) {
    for (const int servers : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(workers, " workers, ", servers, " servers"));
      const std::string directory =
          absl::StrCat(::testing::TempDir(), "/", workers, "x", servers);
      ASSERT_EQ(std::system(absl::StrCat("mkdir -p '", directory, "'").c_str()),
                0);
      LocalCluster cluster(SyntheticExchangeJob(), servers, workers, directory);
      for (int i = 0; i < workers; ++i) cluster.StartWorker(/*threads=*/2);
      ASSERT_EQ(cluster.Await(), absl::OkStatus());
      EXPECT_EQ(TrainedWeights(directory), expected);
      const nlohmann::json summary = cluster.Summary();
      EXPECT_EQ(summary.value("final_loss", -1.0), 0);
      // Counts each worker and chunk, except for three steps at the start and
      // possibly the last step, after which no worker waits.
      const nlohmann::json latency = summary["chunk_latency_microseconds"];
      EXPECT_GE(latency.value("count", 0),
                workers * kChunks * (kSyntheticExchangeSteps - 4));
      EXPECT_LE(latency.value("count", 0),
                workers * kChunks * (kSyntheticExchangeSteps - 3));
      EXPECT_GT(latency.value("median", 0.0), 0);
      EXPECT_GE(latency.value("p99", 0.0), latency.value("p90", 1e9));
    }
  }
}

}  // namespace
}  // namespace tributary
