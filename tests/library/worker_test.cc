// Programs that use tributary/worker.h, as threads beside servers and built-in
// workers in one process.
#include "tributary/worker.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/optimizer/optimizer.h"
#include "common/tensor_io/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/library/model_engine.h"
#include "tests/support/local_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"
#include "worker/data/open_data_set.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

void Set(JobSpec* job, const std::string& field) {
  ASSERT_EQ(SetField(job, field), absl::OkStatus());
}

void ExpectOk(const absl::Status& status) {
  EXPECT_TRUE(status.ok()) << status;
}

class WorkerTest : public ::testing::Test {
 protected:
  static std::string Directory(const std::string& name) {
    const std::string path = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
        name);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
    return path;
  }

  // A program that is a worker, on a thread of its own.
  struct Program {
    explicit Program(const JobSpec& job) : engine(job) {}
    ~Program() {
      if (thread.joinable()) thread.join();
    }
    void Start(const std::string& coordinator) {
      thread = std::thread(
          [this, coordinator] { status = RunEngine(coordinator, &engine); });
    }
    absl::Status Await() {
      thread.join();
      return status;
    }

    ModelEngine engine;
    absl::Status status;
    std::thread thread;
  };

  struct Workers {
    int programs = 0;
    int built_in = 0;
    int servers = 1;
  };

  // Trains the job and returns summary.json.
  static nlohmann::json Train(const JobSpec& job, const Workers& workers) {
    static int runs = 0;
    LocalCluster cluster(job, workers.servers,
                         workers.programs + workers.built_in,
                         Directory(absl::StrCat("run", ++runs)));
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < workers.programs; ++i) {
      programs.push_back(std::make_unique<Program>(job));
      programs.back()->Start(cluster.coordinator());
    }
    for (int i = 0; i < workers.built_in; ++i) cluster.StartWorker();
    for (const auto& program : programs) {
      EXPECT_EQ(program->Await(), absl::OkStatus());
    }
    EXPECT_EQ(cluster.Await(), absl::OkStatus());
    return cluster.Summary();
  }

  static void ExpectSame(const nlohmann::json& a, const nlohmann::json& b) {
    EXPECT_EQ(a["weights_sha256"], b["weights_sha256"]);
    EXPECT_EQ(a["final_loss"], b["final_loss"]);
    EXPECT_EQ(a["evaluation"], b["evaluation"]);
  }

  JobSpec Job(const std::string& family = "mlp") {
    return TinyJob(family, Directory("data"));
  }
};

// The networks have dropout, parameters without weight decay, statistics
// (resnet) and samples that count as several (gpt).
TEST_F(WorkerTest, EqualsBuiltInWorkersInAnyNumber) {
  for (const char* family : {"mlp", "resnet", "gpt"}) {
    SCOPED_TRACE(family);
    const JobSpec job = Job(family);
    const nlohmann::json expected = Train(job, {/*programs=*/0, 1});
    ExpectSame(Train(job, {/*programs=*/1}), expected);
    ExpectSame(Train(job, {/*programs=*/2, /*built_in=*/0, /*servers=*/2}),
               expected);
    ExpectSame(Train(job, {/*programs=*/4}), expected);
    ExpectSame(Train(job, {/*programs=*/1, /*built_in=*/1}), expected);
  }
}

TEST_F(WorkerTest, EqualsBuiltInWorkersWithLocalSteps) {
  JobSpec job = Job();
  Set(&job,
      "exchange.parameter_server.consistency={local_steps { inner_steps: 4 }}");
  const nlohmann::json expected = Train(job, {/*programs=*/0, 1});
  ExpectSame(Train(job, {/*programs=*/1}), expected);
  ExpectSame(Train(job, {/*programs=*/3}), expected);
}

TEST_F(WorkerTest, EqualsBuiltInWorkersOverTheWireIn16Bits) {
  JobSpec job = Job();
  Set(&job, "exchange.transport=WIRE");
  Set(&job, "exchange.wire_dtype=BFLOAT16");
  ExpectSame(Train(job, {/*programs=*/2}), Train(job, {/*programs=*/0, 1}));
}

TEST_F(WorkerTest, EqualsBuiltInWorkersInAnAllReduce) {
  JobSpec job = Job();
  const nlohmann::json expected = Train(job, {/*programs=*/0, 1});
  Set(&job, "exchange.all_reduce={backend: GLOO chunk_bytes: 4096}");
  ExpectSame(Train(job, {/*programs=*/2}), expected);
  ExpectSame(Train(job, {/*programs=*/1, /*built_in=*/1}), expected);
}

TEST_F(WorkerTest, AppliesEveryStepWhenWeightsMayBeStale) {
  for (const char* mode :
       {"stale_synchronous { staleness: 2 }", "asynchronous {}"}) {
    SCOPED_TRACE(mode);
    JobSpec job = Job();
    job.set_steps(200);
    Set(&job, "optimizer.sgd.learning_rate=0.02");
    Set(&job,
        absl::StrCat("exchange.parameter_server.consistency={", mode, "}"));
    const nlohmann::json summary = Train(job, {/*programs=*/2});
    EXPECT_EQ(summary.value("steps", 0), 200);
    EXPECT_EQ(summary["evaluation"].value("step", 0), 200);
    // The loss of random predictions is log 3.
    EXPECT_LT(summary["evaluation"].value("loss", 9.0), 0.8);
  }
}

// The schedule of the job and of the program are the same function of the step.
TEST_F(WorkerTest, AStatedRateEqualsThatOfTheSchedule) {
  JobSpec job = Job();
  Set(&job, "schedule={warmup_steps: 4}");
  for (const bool all_reduce : {false, true}) {
    SCOPED_TRACE(all_reduce);
    if (all_reduce) Set(&job, "exchange.all_reduce={backend: GLOO}");
    const nlohmann::json expected = Train(job, {/*programs=*/2});
    JobSpec constant = job;
    constant.clear_schedule();
    LocalCluster cluster(constant, /*servers=*/1, /*expected_workers=*/2,
                         Directory(all_reduce ? "all_reduce" : "servers"));
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < 2; ++i) {
      programs.push_back(std::make_unique<Program>(constant));
      programs.back()->engine.before_micro_batch =
          [constant](MicroBatch* micro_batch) {
            const double peak = PeakLearningRate(constant.optimizer());
            const double part = static_cast<double>(micro_batch->step() + 1);
            micro_batch->SetLearningRate(part < 4 ? peak * part / 4 : peak);
          };
      programs.back()->Start(cluster.coordinator());
    }
    for (const auto& program : programs) ExpectOk(program->Await());
    ExpectOk(cluster.Await());
    ExpectSame(cluster.Summary(), expected);
  }
}

TEST_F(WorkerTest, AProgramThatStatesADifferentRateIsRefused) {
  for (const char* exchange : {"exchange.parameter_server={}",
                               "exchange.all_reduce={backend: GLOO}"}) {
    SCOPED_TRACE(exchange);
    JobSpec job = Job();
    Set(&job, exchange);
    LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/2,
                         Directory(exchange));
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < 2; ++i) {
      programs.push_back(std::make_unique<Program>(job));
      programs.back()->engine.before_micro_batch = [i](MicroBatch* batch) {
        batch->SetLearningRate(0.5 + i);
      };
      programs.back()->Start(cluster.coordinator());
    }
    const absl::Status statuses[] = {programs[0]->Await(),
                                     programs[1]->Await()};
    // A server refuses one of them, and the other one goes on. In an
    // all-reduce, both may have noticed.
    const absl::Status& refused = statuses[statuses[0].ok() ? 1 : 0];
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("step 0")));
    if (job.exchange().has_all_reduce()) continue;
    EXPECT_NE(statuses[0].ok(), statuses[1].ok());
    ExpectOk(cluster.Await());
  }
}

TEST_F(WorkerTest, KeepsTheWeightsThatTheJobEndsWith) {
  for (const char* exchange : {"exchange.parameter_server={}",
                               "exchange.all_reduce={backend: GLOO}"}) {
    SCOPED_TRACE(exchange);
    JobSpec job = Job();
    Set(&job, exchange);
    const std::string directory = Directory(exchange);
    LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/1, directory);
    ModelEngine engine(job);
    Worker::Options options;
    options.coordinator = cluster.coordinator();
    absl::StatusOr<Worker> worker = Worker::Connect(options);
    ASSERT_TRUE(worker.ok()) << worker.status();
    EXPECT_EQ(worker->rank(), 0);
    EXPECT_EQ(worker->workers(), 1);
    ExpectOk(worker->Declare(engine.Declarations()));
    worker->KeepLastWeights();
    EXPECT_TRUE(worker->LastWeights(0).empty());
    ExpectOk(engine.Run(&*worker));
    ExpectOk(cluster.Await());
    const absl::StatusOr<SafetensorsFile> final_model =
        SafetensorsFile::Open(directory + "/final/model.safetensors");
    ASSERT_TRUE(final_model.ok()) << final_model.status();
    const std::vector<ParameterDeclaration> declared = engine.Declarations();
    const int count = static_cast<int>(declared.size());
    for (int i = 0; i < count; ++i) {
      const absl::Span<const float> last = worker->LastWeights(i);
      std::vector<float> expected(last.size());
      ExpectOk(
          final_model->ReadFloats(*final_model->Find(declared[i].name).value(),
                                  absl::MakeSpan(expected)));
      EXPECT_EQ(std::vector<float>(last.begin(), last.end()), expected);
    }
    EXPECT_TRUE(worker->LastWeights(count).empty());
  }
}

// The model has a tensor that is no parameter, and the other worker does not
// know that the job ends early.
TEST_F(WorkerTest, AProgramEndsTheJobForAllWorkers) {
  const JobSpec job = Job();
  const std::string directory = Directory("ends");
  LocalCluster cluster(job, /*servers=*/2, /*expected_workers=*/2, directory);
  cluster.StartWorker();
  ModelEngine engine(job);
  Worker::Options options;
  options.coordinator = cluster.coordinator();
  absl::StatusOr<Worker> worker = Worker::Connect(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(worker->EndJob()));
  int64_t collected_after = 0;
  worker->SetUntrained([&](int64_t steps) {
    collected_after = steps;
    return std::vector<UntrainedTensor>{{"mask", "BOOL", {2}, "ab"}};
  });
  ExpectOk(worker->Declare(engine.Declarations()));
  struct Ended {};
  int64_t last_step = -1;
  engine.before_micro_batch = [&](MicroBatch* micro_batch) {
    if (micro_batch->step() < 6) return;
    last_step = micro_batch->step();
    ExpectOk(worker->EndJob());
    throw Ended();
  };
  EXPECT_THROW(engine.Run(&*worker).IgnoreError(), Ended);
  EXPECT_EQ(worker->NextStep(), nullptr);
  ExpectOk(worker->status());
  ExpectOk(worker->EndJob());  // The job has ended already.
  ExpectOk(cluster.Await());
  EXPECT_EQ(cluster.Summary()["steps"], last_step);
  EXPECT_EQ(collected_after, last_step);
  const absl::StatusOr<SafetensorsFile> final_model =
      SafetensorsFile::Open(directory + "/final/model.safetensors");
  ASSERT_TRUE(final_model.ok()) << final_model.status();
  ASSERT_TRUE(final_model->Find("mask").ok());
  std::string mask(2, '\0');
  ExpectOk(final_model->ReadBytes(**final_model->Find("mask"),
                                  absl::MakeSpan(&mask[0], mask.size())));
  EXPECT_EQ(mask, "ab");
}

TEST_F(WorkerTest, OthersFinishTheStepOfAProgramThatThrows) {
  const JobSpec job = Job();
  const nlohmann::json expected = Train(job, {/*programs=*/0, 1});
  LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/2,
                       Directory("throws"));
  Program steady(job);
  steady.Start(cluster.coordinator());
  ModelEngine engine(job);
  engine.before_micro_batch = [](MicroBatch* micro_batch) {
    if (micro_batch->step() == 10) throw std::runtime_error("in the middle");
  };
  EXPECT_THROW(RunEngine(cluster.coordinator(), &engine).IgnoreError(),
               std::runtime_error);
  ExpectOk(steady.Await());
  ExpectOk(cluster.Await());
  ExpectSame(cluster.Summary(), expected);
  EXPECT_EQ(cluster.Summary().value("workers_lost", 0), 1);
}

TEST_F(WorkerTest, AWorkerThatIsStoppedLeavesTheJobToTheOthers) {
  const JobSpec job = Job();
  const nlohmann::json expected = Train(job, {/*programs=*/0, 1});
  LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/2,
                       Directory("stopped"));
  Program steady(job);
  steady.Start(cluster.coordinator());
  ModelEngine engine(job);
  Worker::Options options;
  options.coordinator = cluster.coordinator();
  absl::StatusOr<Worker> worker = Worker::Connect(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ExpectOk(worker->Declare(engine.Declarations()));
  engine.before_micro_batch = [&](MicroBatch* micro_batch) {
    if (micro_batch->step() >= 5) worker->Stop();
  };
  EXPECT_THAT(engine.Run(&*worker),
              StatusIs(absl::StatusCode::kCancelled, "stopped by request"));
  ExpectOk(steady.Await());
  ExpectOk(cluster.Await());
  ExpectSame(cluster.Summary(), expected);
}

TEST_F(WorkerTest, ALateWorkerTakesPart) {
  JobSpec job = Job();
  job.set_steps(300);
  const nlohmann::json expected = Train(job, {/*programs=*/0, 1});
  LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/1,
                       Directory("late"));
  Program first(job);
  Program late(job);
  std::once_flag once;
  first.engine.before_micro_batch = [&](MicroBatch* micro_batch) {
    if (micro_batch->step() != 20) return;
    std::call_once(once, [&] { late.Start(cluster.coordinator()); });
  };
  first.Start(cluster.coordinator());
  ExpectOk(first.Await());
  ExpectOk(late.Await());
  ExpectOk(cluster.Await());
  ExpectSame(cluster.Summary(), expected);
}

// What the job tells the program, and what the program sees of a step.
TEST_F(WorkerTest, TheProgramSeesTheJobAndItsSamples) {
  const JobSpec job = Job();
  LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/1,
                       Directory("seen"));
  ModelEngine engine(job);
  Worker::Options options;
  options.coordinator = cluster.coordinator();
  absl::StatusOr<Worker> worker = Worker::Connect(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->job().name, "mlp");
  EXPECT_EQ(worker->job().seed, job.seed());
  EXPECT_EQ(worker->job().train_samples, 100);
  EXPECT_EQ(worker->job().evaluation_samples, 37);
  EXPECT_EQ(worker->job().batch, 16);
  EXPECT_EQ(worker->job().micro_batches, 8);
  ExpectOk(worker->Declare(engine.Declarations()));
  // 100 samples are six batches of 16 and one of four.
  std::vector<int> first_epoch(100);
  std::vector<uint32_t> draws;
  std::vector<int64_t> steps;
  while (Step* const step = worker->NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      EXPECT_EQ(micro_batch.step(), step->number());
      if (micro_batch.epoch() == 0) {
        for (const int64_t i : micro_batch.indexes()) ++first_epoch[i];
      }
      draws.push_back(micro_batch.random().Bits());
      draws.push_back(micro_batch.random(/*layer=*/1).Bits());
      if (micro_batch.number() == 0) steps.push_back(micro_batch.step());
      engine.Train(&micro_batch);
    }
    for (EvaluationPiece& piece : step->evaluation_pieces()) {
      EXPECT_EQ(step->number(), -1);
      EXPECT_LE(piece.end(), 37);
      engine.Evaluate(&piece);
    }
  }
  ExpectOk(worker->status());
  ExpectOk(cluster.Await());
  EXPECT_EQ(first_epoch, std::vector<int>(100, 1));
  EXPECT_EQ(steps.size(), 30u);
  std::sort(draws.begin(), draws.end());
  EXPECT_EQ(std::unique(draws.begin(), draws.end()), draws.end());
}

// The program's own mathematics: softmax regression by hand, against an mlp
// without hidden layers.
class SoftmaxRegression {
 public:
  explicit SoftmaxRegression(const JobSpec& job)
      : data_(*OpenDataSet(ResolveJob(job))) {}

  absl::Status Run(Worker* worker) {
    while (Step* const step = worker->NextStep()) {
      for (MicroBatch& micro_batch : step->micro_batches()) Train(&micro_batch);
      for (EvaluationPiece& piece : step->evaluation_pieces()) Evaluate(&piece);
    }
    return worker->status();
  }

 private:
  static constexpr int kFeatures = 4;
  static constexpr int kClasses = 3;

  // Returns the loss and adds the gradient, if any.
  static double Sample(absl::Span<const float> weights,
                       absl::Span<const float> bias, const float* x, int label,
                       absl::Span<float> weight_gradient,
                       absl::Span<float> bias_gradient, bool* correct) {
    double logits[kClasses];
    double sum = 0;
    for (int c = 0; c < kClasses; ++c) {
      logits[c] = bias[c];
      for (int f = 0; f < kFeatures; ++f) {
        logits[c] += double{weights[c * kFeatures + f]} * x[f];
      }
      sum += std::exp(logits[c]);
    }
    for (int c = 0; c < kClasses && !bias_gradient.empty(); ++c) {
      const double error = std::exp(logits[c]) / sum - (c == label ? 1 : 0);
      bias_gradient[c] += static_cast<float>(error);
      for (int f = 0; f < kFeatures; ++f) {
        weight_gradient[c * kFeatures + f] += static_cast<float>(error * x[f]);
      }
    }
    *correct = std::max_element(logits, logits + kClasses) == logits + label;
    return std::log(sum) - logits[label];
  }

  void Train(MicroBatch* micro_batch) {
    Batch batch;
    data_->ReadTrain(micro_batch->epoch(), micro_batch->indexes(), &batch);
    const absl::Span<float> gradients[] = {micro_batch->gradient(0),
                                           micro_batch->gradient(1)};
    for (const absl::Span<float> gradient : gradients) {
      std::fill(gradient.begin(), gradient.end(), 0.0f);
    }
    double loss = 0;
    bool correct = false;
    for (int64_t i = 0; i < batch.samples; ++i) {
      loss += Sample(micro_batch->weights(0), micro_batch->weights(1),
                     &batch.features[i * kFeatures], batch.labels[i],
                     gradients[0], gradients[1], &correct);
    }
    micro_batch->Ready(0);
    micro_batch->Ready(1);
    micro_batch->Finish(loss);
  }

  void Evaluate(EvaluationPiece* piece) {
    Batch batch;
    data_->ReadEvaluation(piece->begin(), piece->end(), &batch);
    double loss = 0;
    int64_t hits = 0;
    for (int64_t i = 0; i < batch.samples; ++i) {
      bool correct = false;
      loss += Sample(piece->weights(0), piece->weights(1),
                     &batch.features[i * kFeatures], batch.labels[i], {}, {},
                     &correct);
      hits += correct ? 1 : 0;
    }
    piece->Report(loss, hits, batch.samples);
  }

  const std::unique_ptr<DataSet> data_;
};

TEST_F(WorkerTest, HandWrittenGradientsEqualThoseOfABuiltInModel) {
  JobSpec job = Job();
  job.mutable_model()->mutable_mlp()->clear_hidden();
  job.mutable_model()->mutable_mlp()->clear_dropout();
  const nlohmann::json expected = Train(job, {/*programs=*/0, 1});
  LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/1,
                       Directory("by-hand"));
  Worker::Options options;
  options.coordinator = cluster.coordinator();
  absl::StatusOr<Worker> worker = Worker::Connect(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ModelEngine built_in(job);
  ExpectOk(worker->Declare(built_in.Declarations()));
  ExpectOk(SoftmaxRegression(job).Run(&*worker));
  ExpectOk(cluster.Await());
  const nlohmann::json summary = cluster.Summary();
  EXPECT_NEAR(summary.value("final_loss", 0.0),
              expected.value("final_loss", 1.0), 1e-6);
  EXPECT_NEAR(summary["evaluation"].value("loss", 0.0),
              expected["evaluation"].value("loss", 1.0), 1e-6);
  EXPECT_EQ(summary["evaluation"]["accuracy"],
            expected["evaluation"]["accuracy"]);
}

}  // namespace
}  // namespace tributary
