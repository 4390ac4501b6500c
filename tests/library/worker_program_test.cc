// Programs with models that only they know: sample counts, and mistakes, each
// of which ends the worker with one line that says what is wrong.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/local_cluster.h"
#include "tests/support/status_matchers.h"
#include "tributary/worker.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kJob[] = R"(
model { external { name: "toy" config: '{"size": 5}' } }
data {
  external {
    train_samples: 40 evaluation_samples: 20 unit: "parts" units_per_sample: 3
    fingerprint: 77
  }
}
optimizer { sgd { learning_rate: 0.0625 momentum: 0.5 } }
batch { global: 8 micro_batches: 4 }
steps: 12
)";

// The loss of sample i is w[i % 5]^2 / 2 + b * i.
class Toy {
 public:
  static constexpr int kSize = 5;

  std::vector<ParameterDeclaration> declarations = {
      {"w",
       {kSize},
       [](Random* random, absl::Span<float> values) {
         for (float& value : values) value = 2 * random->Uniform() - 1;
       }},
      {"b", {1}, nullptr, ParameterGroup::kNoDecay}};
  // Each sample counts as so many, and its loss and gradient are multiples.
  int parts = 1;
  bool states_parts = true;
  std::function<void(MicroBatch*)> train = [this](MicroBatch* micro_batch) {
    Train(micro_batch);
  };
  std::function<void(EvaluationPiece*)> evaluate = [](EvaluationPiece* piece) {
    piece->Report(piece->weights(1)[0], 0, piece->end() - piece->begin());
  };

  absl::Status Run(const std::string& coordinator) {
    Worker::Options options;
    options.coordinator = coordinator;
    options.log_level = "error";
    absl::StatusOr<Worker> worker = Worker::Connect(options);
    if (!worker.ok()) return worker.status();
    const absl::Status declared = worker->Declare(declarations);
    if (!declared.ok()) return declared;
    while (Step* const step = worker->NextStep()) {
      for (MicroBatch& micro_batch : step->micro_batches()) train(&micro_batch);
      for (EvaluationPiece& piece : step->evaluation_pieces()) evaluate(&piece);
    }
    return worker->status();
  }

  void Train(MicroBatch* micro_batch) const {
    const absl::Span<const float> w = micro_batch->weights(0);
    const float b = micro_batch->weights(1)[0];
    std::vector<float> gradient(kSize);
    float bias_gradient = 0;
    double loss = 0;
    for (const int64_t i : micro_batch->indexes()) {
      const float value = w[i % kSize];
      const auto number = static_cast<float>(i);
      gradient[i % kSize] += static_cast<float>(parts) * value;
      bias_gradient += static_cast<float>(parts) * number;
      loss += parts * (value * value / 2 + b * number);
    }
    if (states_parts) {
      micro_batch->SetSampleCount(
          parts * static_cast<int64_t>(micro_batch->indexes().size()));
    }
    micro_batch->Add(1, {&bias_gradient, 1});
    micro_batch->Add(0, gradient);
    micro_batch->Finish(loss);
  }
};

class WorkerProgramTest : public ::testing::Test {
 protected:
  WorkerProgramTest() {
    const absl::StatusOr<JobSpec> job = ParseJob(kJob, "toy_job");
    EXPECT_TRUE(job.ok()) << job.status();
    job_ = *job;
  }

  static std::string Directory() {
    static int runs = 0;
    const std::string path = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
        ++runs);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
    return path;
  }
  void Set(const std::string& field) {
    ASSERT_EQ(SetField(&job_, field), absl::OkStatus());
  }

  // Runs the job with these programs, and returns the statuses of the
  // coordinator and of each program.
  std::vector<absl::Status> Run(std::vector<Toy*> toys) {
    LocalCluster cluster(job_, /*servers=*/1, static_cast<int>(toys.size()),
                         Directory());
    std::vector<absl::Status> statuses(1 + toys.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < toys.size(); ++i) {
      threads.emplace_back(
          [&, i] { statuses[1 + i] = toys[i]->Run(cluster.coordinator()); });
    }
    for (std::thread& thread : threads) thread.join();
    statuses[0] = cluster.Await();
    if (statuses[0].ok()) summary_ = cluster.Summary();
    return statuses;
  }
  std::string Train(int parts, bool states_parts = true) {
    Toy toy;
    toy.parts = parts;
    toy.states_parts = states_parts;
    for (const absl::Status& status : Run({&toy})) {
      EXPECT_TRUE(status.ok()) << status;
    }
    return summary_["weights_sha256"];
  }

  // Runs the job with a program that makes this mistake, and with a right one,
  // which finishes the job. Returns the status of the wrong one.
  absl::Status StatusBesideAnother(
      const std::function<void(Toy*)>& make_mistake) {
    Toy wrong, right;
    make_mistake(&wrong);
    const std::vector<absl::Status> statuses = Run({&wrong, &right});
    EXPECT_TRUE(statuses[0].ok()) << statuses[0];
    EXPECT_TRUE(statuses[2].ok()) << statuses[2];
    return statuses[1];
  }
  // Runs `program` as the only worker. Expects that it fails with a message
  // that contains `name`, and the job with the same message.
  void ExpectFailure(const std::function<void(Worker*)>& program,
                     const std::string& name) {
    LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                         Directory());
    Worker::Options options;
    options.coordinator = cluster.coordinator();
    absl::StatusOr<Worker> worker = Worker::Connect(options);
    ASSERT_TRUE(worker.ok()) << worker.status();
    program(&*worker);
    EXPECT_THAT(
        worker->status(),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(name)));
    EXPECT_THAT(cluster.Await(),
                StatusIs(absl::StatusCode::kAborted, HasSubstr(name)));
  }

  JobSpec job_;
  nlohmann::json summary_;
};

TEST_F(WorkerProgramTest, LearnsFromSamplesThatOnlyItKnows) {
  const std::string alone = Train(/*parts=*/1);
  Toy toys[2];
  for (const absl::Status& status : Run({&toys[0], &toys[1]})) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(summary_["weights_sha256"], alone);
  EXPECT_EQ(summary_["evaluation"]["step"], 12);
  EXPECT_LT(summary_.value("final_loss", 0.0), -1);
}

// Twice the gradient of twice the samples is the same mean, to the last bit.
TEST_F(WorkerProgramTest, TheMeanIsOverTheStatedSampleCount) {
  for (const char* exchange :
       {"parameter_server={}",
        "parameter_server.consistency={local_steps { inner_steps: 3 }}",
        "all_reduce={backend: GLOO}"}) {
    SCOPED_TRACE(exchange);
    Set(absl::StrCat("exchange.", exchange));
    const std::string once = Train(/*parts=*/1);
    EXPECT_EQ(Train(/*parts=*/2), once);
    EXPECT_NE(Train(/*parts=*/2, /*states_parts=*/false), once);
  }
}

TEST_F(WorkerProgramTest, ASampleMayCountNothing) {
  const std::string all = Train(/*parts=*/1);
  Toy toy;
  toy.train = [&](MicroBatch* micro_batch) {
    if (micro_batch->number() != 2) return toy.Train(micro_batch);
    micro_batch->SetSampleCount(0);
    micro_batch->Add(0, std::vector<float>(Toy::kSize));
    micro_batch->Add(1, {0.0f});
    micro_batch->Finish(0);
  };
  for (const absl::Status& status : Run({&toy})) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_NE(summary_["weights_sha256"], all);
}

TEST_F(WorkerProgramTest, AMistakeEndsTheWorkerAndAnotherOneFinishesTheJob) {
  const auto forget = [](Toy* toy) {
    toy->train = [](MicroBatch* micro_batch) {
      micro_batch->Add(1, {0.0f});
      micro_batch->Finish(1);
    };
  };
  const auto is_error =
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("of step 0: parameter w has no gradient"));
  EXPECT_THAT(StatusBesideAnother(forget), is_error);
  Toy alone;
  forget(&alone);
  const std::vector<absl::Status> statuses = Run({&alone});
  EXPECT_THAT(std::string(statuses[0].message()),
              HasSubstr("parameter w has no gradient"));
  EXPECT_THAT(statuses[1], is_error);
}

TEST_F(WorkerProgramTest, ASampleCountAboveTheJobsBoundIsAnError) {
  EXPECT_THAT(std::string(StatusBesideAnother([](Toy* toy) {
                            toy->parts = 4;
                          }).message()),
              HasSubstr("data.external"));
}

TEST_F(WorkerProgramTest, LeavingOutAPartOfTheWorkIsAnError) {
  ExpectFailure([](Worker* worker) { EXPECT_EQ(worker->NextStep(), nullptr); },
                "before Declare");
  ExpectFailure(
      [](Worker* worker) {
        EXPECT_TRUE(worker->Declare(Toy().declarations).ok());
        while (worker->NextStep() != nullptr) {
        }
      },
      "skipped step 0");
  ExpectFailure(
      [](Worker* worker) {
        const Toy toy;
        EXPECT_TRUE(worker->Declare(toy.declarations).ok());
        while (Step* const step = worker->NextStep()) {
          for (MicroBatch& micro_batch : step->micro_batches()) {
            toy.Train(&micro_batch);
          }
        }
      },
      "has not evaluated");
}

TEST_F(WorkerProgramTest, KnowsTheJobAndMayRepeatAWrongDeclaration) {
  LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/1,
                       Directory());
  Worker::Options options;
  options.coordinator = cluster.coordinator();
  absl::StatusOr<Worker> worker = Worker::Connect(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->job().model, "toy");
  EXPECT_EQ(worker->job().config, "{\"size\": 5}");
  EXPECT_EQ(worker->job().fingerprint, 77u);
  EXPECT_EQ(worker->job().evaluation_samples, 20);
  EXPECT_THAT(worker->Declare({{"w", {3}, nullptr}, {"w", {2}, nullptr}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("w")));
  EXPECT_TRUE(worker->Declare(Toy().declarations).ok());
  EXPECT_THAT(worker->Declare(Toy().declarations),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(WorkerProgramTest, AProgramWithOtherParametersIsRefused) {
  Toy others[3];
  others[0].declarations[1].name = "c";
  const std::vector<absl::Status> statuses =
      Run({&others[0], &others[1], &others[2]});
  // The majority trains.
  EXPECT_TRUE(statuses[0].ok()) << statuses[0];
  EXPECT_THAT(
      std::string(statuses[1].message()),
      HasSubstr("parameter 1 is c [1] NO_DECAY, expected b [1] NO_DECAY"));
  EXPECT_TRUE(statuses[2].ok()) << statuses[2];
  EXPECT_TRUE(statuses[3].ok()) << statuses[3];
}

}  // namespace
}  // namespace tributary
