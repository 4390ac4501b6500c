// Programs whose own networks, or own gradients, use tables.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/status_matchers.h"
#include "tributary/job.h"
#include "tributary/nn.h"
#include "tributary/trained_model.h"
#include "tributary/worker.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kUsers = 20;
constexpr int64_t kItems = 15;

// One or two users rate an item: the product of the means of hidden numbers.
class Ratings final : public DataSet {
 public:
  Ratings() {
    info_.kind = DataInfo::Kind::kRows;
    info_.sample_shape = {1};
    info_.vector_dims = {4, 4};
    info_.vector_names = {"users", "item"};
  }
  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return 600; }
  int64_t evaluation_samples() const override { return 100; }
  uint64_t fingerprint() const override { return 3; }
  void ReadTrain(int64_t /*epoch*/, absl::Span<const int64_t> indexes,
                 Batch* batch) const override {
    *batch = Batch();
    batch->feature_keys.resize(2);
    for (const int64_t i : indexes) Append(i, batch);
  }
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override {
    *batch = Batch();
    batch->feature_keys.resize(2);
    for (int64_t i = begin; i < end; ++i) Append(1000 + i, batch);
  }

 private:
  static double Hidden(uint64_t key) {
    return std::sin(static_cast<double>(7 * key + 1));
  }

  void Append(int64_t i, Batch* batch) const {
    FeatureKeys& users = batch->feature_keys[0];
    FeatureKeys& items = batch->feature_keys[1];
    const auto first = static_cast<uint64_t>(i * 37 % kUsers);
    users.keys.push_back(first);
    double user = Hidden(first);
    if (i % 3 == 0) {
      const auto second = static_cast<uint64_t>(i * 11 % kUsers);
      users.keys.push_back(second);
      user = (user + Hidden(second)) / 2;
    }
    users.ends.push_back(static_cast<int64_t>(users.keys.size()));
    const auto item = static_cast<uint64_t>(i * 53 % kItems) + 1000;
    items.keys.push_back(item);
    items.ends.push_back(static_cast<int64_t>(items.keys.size()));
    const float number = static_cast<float>(i % 5) / 5;
    batch->features.push_back(number);
    batch->values.push_back(
        static_cast<float>(user * Hidden(item) + 0.5 * number));
    ++batch->samples;
  }

  DataInfo info_;
};

absl::StatusOr<std::unique_ptr<DataSet>> OpenRatings(Config* /*config*/) {
  return std::make_unique<Ratings>();
}

// The dot product of the two vectors, plus a linear function of the number.
absl::StatusOr<Graph> BuildTwoTowers(Config* /*config*/, const DataInfo& data) {
  const int64_t numbers = data.sample_shape[0];
  const int64_t vectors = data.vector_dims[0] + data.vector_dims[1];
  Graph graph(numbers + vectors, vectors);
  const ValueId both = graph.Add(
      "vectors",
      std::make_unique<Columns>(
          std::vector<int64_t>{numbers + vectors},
          std::vector<Columns::Piece>{{/*input=*/0, numbers, vectors}}),
      {graph.input()});
  const ValueId product = graph.Add(
      "product", std::make_unique<PairSum>(2, data.vector_dims[0]), {both});
  const ValueId number =
      graph.Add("number",
                std::make_unique<Columns>(
                    std::vector<int64_t>{numbers + vectors},
                    std::vector<Columns::Piece>{{/*input=*/0, 0, numbers}}),
                {graph.input()});
  const ValueId line = graph.Add(
      "line", std::make_unique<Linear>(Linear::FanInOptions(numbers, 1)),
      {number});
  graph.SetLoss(
      LossSpec::MeanSquaredError(),
      graph.Add("sum", std::make_unique<Residual>(1), {line, product}));
  return graph;
}

constexpr char kNetworkJob[] = R"(
  model { external { name: "two_towers" } }
  data { external { name: "ratings" } }
  batch { global: 40 micro_batches: 4 }
  optimizer { sgd { learning_rate: 0.1 momentum: 0 } }
  epochs: 20
  checkpoint { every_steps: 50 }
  sparse {
    table { name: "users" dim: 4 adagrad { learning_rate: 0.2 } }
    table { name: "items" dim: 4 adagrad { learning_rate: 0.2 } }
    feature { column: "users" table: "users" pooling: MEAN }
    feature { column: "item" table: "items" pooling: NONE }
  })";

Job::Result Trained(const Job::Options& options) {
  absl::StatusOr<Job::Result> result = Job(options).Run();
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : Job::Result();
}

TEST(ProgramTablesTest, ANetworkOfTheProgramReadsTables) {
  Job::Options options;
  options.text = kNetworkJob;
  options.models.Add("two_towers", &BuildTwoTowers);
  options.data_sets.Add("ratings", &OpenRatings);
  options.device = "cpu";
  options.output_directory = MakeTestFolder() + "/one";
  const Job::Result one = Trained(options);
  ASSERT_TRUE(one.evaluation.has_value());
  // The values' variance is about 0.3.
  EXPECT_LT(one.evaluation->loss, 0.03);
  const std::string run = options.output_directory;

  options.output_directory = MakeTestFolder() + "/more";
  options.workers = 3;
  options.servers = 2;
  const Job::Result more = Trained(options);
  EXPECT_EQ(more.weights_sha256, one.weights_sha256);
  EXPECT_EQ(more.evaluation->loss, one.evaluation->loss);

  // The final folder suffices.
  std::filesystem::remove_all(run + "/checkpoints");
  TrainedModel::Options trained;
  trained.models = options.models;
  trained.data_sets = options.data_sets;
  trained.device = "cpu";
  const absl::StatusOr<TrainedModel> model = TrainedModel::Open(run, trained);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->Evaluate().value().loss, one.evaluation->loss);
  const TrainedModel::Outputs held_out = model->PredictHeldOut().value();
  ASSERT_EQ(held_out.samples, 100);
  Batch batch;
  Ratings().ReadEvaluation(0, 100, &batch);
  const absl::StatusOr<TrainedModel::Outputs> outputs =
      model->Predict(batch.features, batch.feature_keys);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->values, held_out.values);
  double loss = 0;
  for (int i = 0; i < 100; ++i) {
    loss += std::pow(outputs->values[i] - batch.values[i], 2) / 100;
  }
  EXPECT_NEAR(loss, one.evaluation->loss, 1e-6);
  EXPECT_THAT(model->Predict(batch.features).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("keys")));
}

// A model of one weight w that this program computes: the value of a sample is
// w times the mean of the rows of two keys, minus the row of a third. The
// target is the sample's index, modulo 5.
constexpr char kLookUpJob[] = R"(
  model { external { name: "rows" } }
  data { external { train_samples: 24 evaluation_samples: 5 } }
  batch { global: 12 micro_batches: 4 }
  optimizer { sgd { learning_rate: 0.05 momentum: 0 } }
  steps: 9
  checkpoint { every_steps: 3 }
  sparse {
    table { name: "t" dim: 1 buckets: 3 sgd { learning_rate: 0.1 momentum: 0 } }
    feature { column: "pair" table: "t" pooling: MEAN }
    feature { column: "one" table: "t" pooling: NONE }
  })";

struct Keys {
  std::vector<uint64_t> pairs, ones;
  std::vector<int64_t> pair_ends, one_ends;
};

Keys KeysOf(absl::Span<const int64_t> indexes) {
  Keys keys;
  for (const int64_t i : indexes) {
    keys.pairs.push_back(static_cast<uint64_t>(i % 4));
    keys.pairs.push_back(static_cast<uint64_t>(i % 7));
    keys.ones.push_back(static_cast<uint64_t>(i % 3));
    keys.pair_ends.push_back(static_cast<int64_t>(keys.pairs.size()));
    keys.one_ends.push_back(static_cast<int64_t>(keys.ones.size()));
  }
  return keys;
}

double TargetOf(int64_t i) { return static_cast<double>(i % 5); }

// What the workers of a job have seen.
struct Seen {
  absl::Mutex mu;
  std::map<uint64_t, float> first, last;  // Rows of version 0 and at the end.
  std::vector<std::vector<int64_t>> batches;  // By step.
};

absl::Status ComputeRows(Worker* worker, Seen* seen) {
  EXPECT_EQ(worker->job().features.size(), 2u);
  EXPECT_EQ(worker->job().features[1].name, "one");
  EXPECT_EQ(worker->job().features[1].table, "t");
  const absl::Status declared = worker->Declare(
      {{"w", {1}, [](Random*, absl::Span<float> w) { w[0] = 0.5; }}});
  if (!declared.ok()) return declared;
  const std::vector<uint64_t> all = {0, 1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> all_ends = {1, 2, 3, 4, 5, 6, 7};
  std::vector<float> rows(all.size());
  while (Step* const step = worker->NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      const auto indexes = micro_batch.indexes();
      const Keys keys = KeysOf(indexes);
      worker->Announce(micro_batch.step(), micro_batch.number(),
                       {{0, keys.pairs}, {1, keys.ones}});
      if (micro_batch.step() == 0) {
        micro_batch.LookUp(1, {all, all_ends}, absl::MakeSpan(rows));
      }
      std::vector<float> pairs(indexes.size()), ones(indexes.size());
      const int pair = micro_batch.LookUp(0, {keys.pairs, keys.pair_ends},
                                          absl::MakeSpan(pairs));
      const int one = micro_batch.LookUp(1, {keys.ones, keys.one_ends},
                                         absl::MakeSpan(ones));
      const float w = micro_batch.weights(0)[0];
      double loss = 0;
      float gradient = 0;
      std::vector<float> pair_gradients, one_gradients;
      for (size_t i = 0; i < indexes.size(); ++i) {
        const float error =
            w * pairs[i] - ones[i] - static_cast<float>(TargetOf(indexes[i]));
        loss += static_cast<double>(error) * error;
        gradient += 2 * error * pairs[i];
        pair_gradients.push_back(2 * error * w);
        one_gradients.push_back(-2 * error);
      }
      micro_batch.AddGradient(pair, pair_gradients);
      micro_batch.AddGradient(one, one_gradients);
      micro_batch.Add(0, {gradient});
      micro_batch.Finish(loss);
      absl::MutexLock lock(&seen->mu);
      if (micro_batch.step() == 0 && !micro_batch.aborted()) {
        for (size_t key = 0; key < all.size(); ++key) {
          seen->first[key] = rows[key];
        }
      }
      seen->batches.resize(9);
      auto& batch = seen->batches[micro_batch.step()];
      batch.insert(batch.end(), indexes.begin(), indexes.end());
    }
    for (EvaluationPiece& piece : step->evaluation_pieces()) {
      piece.LookUp(1, {all, all_ends}, absl::MakeSpan(rows));
      absl::MutexLock lock(&seen->mu);
      for (size_t key = 0; key < all.size(); ++key) seen->last[key] = rows[key];
      piece.Report(rows[0], 0, piece.end() - piece.begin());
    }
  }
  return worker->status();
}

TEST(ProgramTablesTest, AWorkerOfTheProgramLooksRowsUp) {
  Job::Options options;
  options.text = kLookUpJob;
  Seen seen;
  options.worker = [&](Worker* worker) { return ComputeRows(worker, &seen); };
  const Job::Result one = Trained(options);
  // The same in double precision, without workers.
  std::map<uint64_t, double> rows(seen.first.begin(), seen.first.end());
  ASSERT_EQ(rows.size(), 7u);
  double w = 0.5;
  for (const std::vector<int64_t>& batch : seen.batches) {
    ASSERT_EQ(batch.size(), 12u);
    double gradient = 0;
    std::map<uint64_t, double> row_gradients;
    for (const int64_t i : batch) {
      const uint64_t a = i % 4, b = i % 7, c = i % 3;
      const double mean = (rows[a] + rows[b]) / 2;
      const double error = w * mean - rows[c] - TargetOf(i);
      gradient += 2 * error * mean;
      row_gradients[a] += error * w;
      row_gradients[b] += error * w;
      row_gradients[c] -= 2 * error;
    }
    w -= 0.05 * gradient / 12;
    for (const auto& [key, sum] : row_gradients) rows[key] -= 0.1 * sum / 12;
  }
  EXPECT_NEAR(one.weights.at("w").values[0], w, 1e-5);
  for (const auto& [key, row] : rows) {
    EXPECT_NEAR(seen.last.at(key), row, 1e-5) << key;
    EXPECT_GT(std::abs(row - seen.first.at(key)), 1e-3) << key;
  }

  const std::map<uint64_t, float> last = seen.last;
  for (const int servers : {1, 3}) {
    options.workers = 4;
    options.servers = servers;
    EXPECT_EQ(Trained(options).weights_sha256, one.weights_sha256);
    EXPECT_EQ(seen.last, last);
  }
}

// Each sample subtracts 1/8 from the row of one of three keys, whatever the
// rows are.
constexpr char kCountRowsJob[] = R"(
  model { external { name: "rows" } }
  data { external { train_samples: 24 evaluation_samples: 5 } }
  batch { global: 8 micro_batches: 4 }
  optimizer { sgd { learning_rate: 0.05 momentum: 0 } }
  exchange { parameter_server { consistency { asynchronous {} } } }
  steps: 30
  checkpoint { every_steps: 10 }
  sparse {
    table { name: "t" dim: 1 buckets: 3 uniform: 0
            sgd { learning_rate: 1 momentum: 0 } }
    feature { column: "one" table: "t" pooling: NONE }
  })";

absl::Status CountRows(Worker* worker, Seen* seen) {
  const absl::Status declared = worker->Declare(
      {{"w", {1}, [](Random*, absl::Span<float> w) { w[0] = 0.5; }}});
  if (!declared.ok()) return declared;
  const std::vector<uint64_t> all = {0, 1, 2};
  const std::vector<int64_t> all_ends = {1, 2, 3};
  std::vector<float> rows(all.size());
  while (Step* const step = worker->NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      const auto indexes = micro_batch.indexes();
      const Keys keys = KeysOf(indexes);
      worker->Announce(micro_batch.step(), micro_batch.number(),
                       {{0, keys.ones}});
      std::vector<float> ones(indexes.size());
      const int one = micro_batch.LookUp(0, {keys.ones, keys.one_ends},
                                         absl::MakeSpan(ones));
      micro_batch.AddGradient(one, std::vector<float>(indexes.size(), 1.f));
      micro_batch.Add(0, {0.f});
      micro_batch.Finish(1);
    }
    for (EvaluationPiece& piece : step->evaluation_pieces()) {
      piece.LookUp(0, {all, all_ends}, absl::MakeSpan(rows));
      absl::MutexLock lock(&seen->mu);
      for (size_t key = 0; key < all.size(); ++key) seen->last[key] = rows[key];
      piece.Report(rows[0], 0, piece.end() - piece.begin());
    }
  }
  return worker->status();
}

TEST(ProgramTablesTest, AsynchronousWorkersChangeRowsOnceForEachStep) {
  for (const int workers : {1, 3}) {
    Job::Options options;
    options.text = kCountRowsJob;
    options.workers = workers;
    options.servers = 2;
    Seen seen;
    options.worker = [&](Worker* worker) { return CountRows(worker, &seen); };
    (void)Trained(options);
    // Ten epochs of 24 samples.
    EXPECT_EQ(seen.last,
              (std::map<uint64_t, float>{{0, -10}, {1, -10}, {2, -10}}));
  }
}

TEST(ProgramTablesTest, MistakesOfAWorkerEndTheJob) {
  const struct {
    const char* part;
    std::function<void(MicroBatch*)> mistake;
  } cases[] = {
      {"there is no feature 2",
       [](MicroBatch* micro_batch) { micro_batch->LookUp(2, {}, {}); }},
      {"'one'",
       [](MicroBatch* micro_batch) {
         float vectors[1];
         micro_batch->LookUp(1, {{{1, 2}}, {{2}}}, absl::MakeSpan(vectors));
       }},
      {"room for 2",
       [](MicroBatch* micro_batch) {
         float vectors[2];
         micro_batch->LookUp(1, {{{1}}, {{1}}}, absl::MakeSpan(vectors));
       }},
      {"look-up 0",
       [](MicroBatch* micro_batch) { micro_batch->AddGradient(0, {}); }},
  };
  for (const auto& of : cases) {
    SCOPED_TRACE(of.part);
    Job::Options options;
    options.text = kLookUpJob;
    options.worker = [&](Worker* worker) {
      const absl::Status declared = worker->Declare({{"w", {1}}});
      if (!declared.ok()) return declared;
      while (Step* const step = worker->NextStep()) {
        for (MicroBatch& micro_batch : step->micro_batches()) {
          of.mistake(&micro_batch);
        }
      }
      return worker->status();
    };
    EXPECT_THAT(
        Job(options).Run().status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(of.part)));
  }
}

}  // namespace
}  // namespace tributary
