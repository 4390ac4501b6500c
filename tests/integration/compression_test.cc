// exchange.compression: training reaches a similar loss with a fraction of the
// bytes, also when workers are replaced.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "common/parameters/arena_layout.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.grpc.pb.h"
#include "server/membership/member_secrets.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_until_it_hits.h"
#include "tests/support/tiny_jobs.h"
#include "worker/exchange/parameter_server/received_weights.h"

namespace tributary {
namespace {

std::string CompressionDirectory(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
  return path;
}

struct Method {
  const char* name;
  const char* change;
  double share_of_bytes;  // Upper bound.
};

constexpr Method kMethods[] = {
    {"TopK", "exchange.compression.top_k.fraction=0.1", 0.22},
    {"EightBit", "exchange.compression.eight_bit={}", 0.28},
};

class CompressionTest : public ::testing::TestWithParam<Method> {
 protected:
  static constexpr int64_t kSteps = 300;

  CompressionTest() : job_(TinyJob("mlp", CompressionDirectory("data"))) {
    job_.set_steps(kSteps);
    job_.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  }

  void Compress() {
    ASSERT_EQ(SetField(&job_, GetParam().change), absl::OkStatus());
  }

  nlohmann::json Run(int workers, int servers) {
    LocalCluster cluster(job_, servers, workers, CompressionDirectory("run"));
    for (int i = 0; i < workers; ++i) cluster.StartWorker();
    return ResultOf(&cluster);
  }

  // The untrained model's loss is about 1.1. Without compression, training ends
  // below 0.05, depending on dropout and the small data set.
  static nlohmann::json ResultOf(LocalCluster* cluster) {
    EXPECT_EQ(cluster->Await(), absl::OkStatus());
    const nlohmann::json summary = cluster->Summary();
    EXPECT_EQ(summary.value("steps", 0), kSteps);
    EXPECT_LT(summary["evaluation"].value("loss", 9.0), 0.2);
    return summary;
  }

  JobSpec job_;
};

TEST_P(CompressionTest, TrainingConvergesWithFewerBytes) {
  const double plain = Run(/*workers=*/2, /*servers=*/1).value("bytes_sent", 0);
  Compress();
  const double compressed =
      Run(/*workers=*/2, /*servers=*/1).value("bytes_sent", 0);
  EXPECT_LT(compressed, GetParam().share_of_bytes * plain);
  Run(/*workers=*/1, /*servers=*/1);
  Run(/*workers=*/3, /*servers=*/2);
}

TEST_P(CompressionTest, WorkersMayComeAndGo) {
  Compress();
  RunUntilItHits([this] {
    LocalCluster cluster(job_, /*servers=*/2, /*expected_workers=*/3,
                         CompressionDirectory("churn"));
    for (int i = 0; i < 3; ++i) cluster.StartWorker();
    cluster.AwaitStep(20);
    cluster.KillWorker(1);
    cluster.AwaitStep(40);
    // A new worker receives whole chunks first and differences after that.
    cluster.StartWorker();
    cluster.AwaitStep(60);
    cluster.KillWorker(0);
    cluster.StartWorker();
    return ResultOf(&cluster).value("workers_lost", 0) >= 1;
  });
}

// All initial workers have left in the end, so training continues from the
// weights that new workers received.
TEST_P(CompressionTest, EveryWorkerMayBeReplaced) {
  Compress();
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                       CompressionDirectory("replaced"));
  int worker = cluster.StartWorker();
  for (const int at : {10, 21, 22, 50}) {
    cluster.AwaitStep(at);
    cluster.KillWorker(worker);
    worker = cluster.StartWorker();
  }
  ResultOf(&cluster);
}

INSTANTIATE_TEST_SUITE_P(Methods, CompressionTest,
                         ::testing::ValuesIn(kMethods),
                         [](const auto& info) { return info.param.name; });

// A client that does not read for a while, although far more bytes arrive than
// sockets and windows hold: the server must drop differences.
TEST(SlowLaggingReaderTest,
     GetsWholeChunksInPlaceOfDifferencesThatWereLeftOut) {
  constexpr int64_t kParameters = 1 << 20;
  constexpr int64_t kChunkBytes = 1 << 18;
  constexpr int kChunks = 16;
  constexpr int64_t kSteps = 100;
  constexpr double kLearningRate = 0.01;
  const absl::StatusOr<JobSpec> job = ParseJob(
      absl::StrCat("model { synthetic { parameters: ", kParameters,
                   " } } data { random { samples: 64 } } batch { global: 8 } "
                   "optimizer { sgd { momentum: 0 learning_rate: ",
                   kLearningRate, " } } steps: ", kSteps,
                   " exchange { parameter_server { chunk_bytes: ", kChunkBytes,
                   " } compression { top_k { fraction: 0.5 } } }"),
      "job");
  ASSERT_TRUE(job.ok()) << job.status();
  ParameterTable table;
  ParameterTable::Parameter* weights = table.add_parameter();
  weights->set_name("weights");
  weights->add_shape(kParameters);
  weights->set_group(NO_DECAY);
  table.set_chunk_elements(kChunkBytes / 4);
  const ArenaLayout layout = *ArenaLayout::Create(table);

  LocalCluster cluster(*job, /*servers=*/1, /*expected_workers=*/3,
                       CompressionDirectory("slow"));
  cluster.StartWorker();
  cluster.StartWorker();
  WorkerMessage hello;
  hello.mutable_hello()->set_signature(layout.signature());
  hello.mutable_hello()->set_attempt(1);
  // Of a reader that no coordinator has admitted.
  hello.mutable_hello()->set_secret(
      MemberSecrets(kClusterSecretKey).OfMember(/*incarnation=*/0));
  const auto stub =
      ParameterServer::NewStub(CreateChannel(cluster.coordinator()));
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientReaderWriter<WorkerMessage, ServerMessage>>
      stream;
  ServerMessage message;
  do {
    // Retries until the two workers have determined the server's model.
    context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(10)));
    stream = stub->Exchange(context.get());
    stream->Write(hello);
  } while (!stream->Read(&message));
  EXPECT_TRUE(message.has_welcome());
  cluster.StartWorker();
  cluster.AwaitStep(kSteps / 2);

  ReceivedWeights received(job->exchange(), &layout);
  std::vector<float> values(kParameters);
  std::vector<int> wholes(kChunks);
  int finished = 0;
  while (finished < kChunks && stream->Read(&message)) {
    Weights* const part = message.mutable_weights();
    ASSERT_LT(part->chunk(), kChunks);
    const grpc::Slice slice(part->payload());
    const auto floats =
        received.Take(*part, PayloadAtEnd(grpc::ByteBuffer(&slice, 1),
                                          static_cast<int64_t>(slice.size())));
    // Applying a difference to a version that was not received would be an
    // error.
    ASSERT_TRUE(floats.ok()) << floats.status();
    received.Write(part->chunk(), *floats,
                   values.data() + layout.ChunkBegin(part->chunk()));
    wholes[part->chunk()] += part->difference() ? 0 : 1;
    finished += part->version() == kSteps ? 1 : 0;
  }
  EXPECT_EQ(finished, kChunks);
  // Some version after 0 was also received as whole chunks.
  EXPECT_GT(*std::max_element(wholes.begin(), wholes.end()), 1);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(cluster.Await().ok());
  // With error feedback in both directions, the missing part is less than a few
  // steps' gradients.
  for (int64_t i = 0; i < kParameters; ++i) {
    const double gradient = static_cast<double>(i % 251 + 1) / 256;
    ASSERT_NEAR(values[i], -kLearningRate * kSteps * gradient,
                10 * kLearningRate);
  }
}

}  // namespace
}  // namespace tributary
