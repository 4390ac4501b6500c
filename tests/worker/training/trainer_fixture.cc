#include "tests/worker/training/trainer_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/parameters/reduction_tree.h"
#include "tests/support/tiny_jobs.h"
#include "worker/state/work_state.h"
#include "worker/training/trainer.h"

namespace tributary {

bool Pushed::operator==(const Pushed& other) const {
  return step == other.step && node == other.node && chunk == other.chunk &&
         sample_count == other.sample_count && loss_sum == other.loss_sum &&
         base_version == other.base_version &&
         gradient_norm == other.gradient_norm && gradient == other.gradient;
}

Buffer FakeExchange::TakeArena() {
  if (on_take) on_take();
  return pool_.Take();
}

void FakeExchange::Push(int64_t step, NodeChunk sum) {
  const float* const first = sum.arena.get() + layout().ChunkBegin(sum.chunk);
  const Pushed pushed = {
      step,
      sum.node,
      sum.chunk,
      sum.sample_count,
      sum.loss_sum.value().value_or(-1),
      sink_.BaseVersion(sum.chunk),
      sum.gradient_norm,
      std::vector<float>(first, first + layout().ChunkSize(sum.chunk))};
  absl::MutexLock lock(&pushing_);
  on_push(pushed);
}

void TrainerFixture::Make(int64_t steps, const std::vector<std::string>& fields,
                          int threads) {
  JobSpec job = TinyJob("mlp", ::testing::TempDir());
  std::vector<std::string> all = {
      absl::StrCat("steps=", steps), "evaluation.disabled=true",
      absl::StrCat("batch.micro_batches=", kMicroBatches)};
  all.insert(all.end(), fields.begin(), fields.end());
  for (const std::string& field : all) {
    const absl::Status status = SetField(&job, field);
    ASSERT_TRUE(status.ok()) << status;
  }
  absl::StatusOr<std::unique_ptr<TrainingSetup>> setup =
      TrainingSetup::Create(ResolveJob(job), threads);
  ASSERT_TRUE(setup.ok()) << setup.status();
  setup_ = *std::move(setup);
  ASSERT_GT(chunks(), 1);
  const Rounds& rounds = setup_->rounds();
  state_ = WorkState::Create(
      setup_->job(),
      {rounds.count(), setup_->facts().evaluation_pieces() > 0,
       rounds.RoundsFor(setup_->job().evaluation().every_steps())},
      &setup_->layout());
  exchange_ = std::make_unique<FakeExchange>(setup_->job(), &setup_->layout(),
                                             state_.get());
  exchange_->on_push = [this](const Pushed& pushed) { OnPush(pushed); };
  initial_.resize(setup_->layout().arena_elements());
  setup_->model(0)->Initialize(setup_->job().seed(), setup_->layout(),
                               initial_.data());
  reports_.clear();
  pushed_.clear();
  covered_.clear();
  generation_ = pieces_reported_ = steps_done_ = 0;
}

absl::Status TrainerFixture::Run() {
  Trainer::Hooks hooks;
  hooks.report = [this](const WorkerReport& report) { OnReport(report); };
  hooks.step_done = [this] { ++steps_done_; };
  hooks.warn = [this](const std::string& line) { warnings_.push_back(line); };
  hooks.clock = [this] {
    return absl::UnixEpoch() + absl::Milliseconds(++now_);
  };
  Trainer trainer(setup_.get(), state_.get(), exchange_.get(), hooks);
  absl::Status status = trainer.Run();
  progress_ = trainer.Progress();
  return status;
}

void TrainerFixture::Assign(int begin, int end) {
  Deal assignment;
  assignment.set_generation(++generation_);
  assignment.set_leaf_begin(begin);
  assignment.set_leaf_end(end);
  assignment.set_piece_end(setup_->facts().evaluation_pieces());
  state_->SetAssignment(assignment);
}

void TrainerFixture::Deliver(int64_t version, int chunk) {
  const ArenaLayout& layout = setup_->layout();
  float* to = nullptr;
  ASSERT_EQ(state_->BeginWrite(chunk, version, &to),
            WorkState::Arrival::kWrite);
  const auto weights = WeightsOf(version);
  std::copy_n(weights.begin() + layout.ChunkBegin(chunk),
              layout.ChunkSize(chunk), to);
  state_->EndWrite(chunk, version);
}

void TrainerFixture::DeliverAll(int64_t version) {
  for (int chunk = 0; chunk < chunks(); ++chunk) Deliver(version, chunk);
}

std::vector<float> TrainerFixture::WeightsOf(int64_t version) const {
  std::vector<float> weights = initial_;
  for (float& weight : weights) {
    weight *= std::pow(kDecay, static_cast<float>(version));
  }
  return weights;
}

void TrainerFixture::OnReport(const WorkerReport& report) {
  absl::MutexLock lock(&reporting_);
  reports_.push_back(report);
  if (on_report_ && !on_report_(report)) return;
  if (report.has_synced()) Assign(0, kMicroBatches);
  if (!report.has_evaluation()) return;
  const int64_t version = report.evaluation().version();
  if (++pieces_reported_ % setup_->facts().evaluation_pieces() != 0) return;
  state_->SetEvaluated(version);
  if (version == setup_->rounds().count()) state_->SetFinished();
}

void TrainerFixture::OnPush(const Pushed& pushed) {
  pushed_.push_back(pushed);
  if (on_push_ && !on_push_(pushed)) return;
  const LeafRange leaves = LeavesUnder(pushed.node, kMicroBatches);
  int& covered = covered_[{pushed.step, pushed.chunk}];
  covered += leaves.end - leaves.begin;
  if (covered < kMicroBatches) return;
  Deliver(pushed.step + 1, pushed.chunk);
  const bool last =
      pushed.step + 1 == setup_->rounds().count() && pushed.chunk == 0;
  if (last && setup_->facts().evaluation_pieces() == 0) state_->SetFinished();
}

std::map<std::pair<int, int>, Pushed> TrainerFixture::SumsOf(
    int64_t step) const {
  std::map<std::pair<int, int>, Pushed> sums;
  for (const Pushed& pushed : pushed_) {
    if (pushed.step != step) continue;
    const bool first =
        sums.emplace(std::pair(pushed.chunk, pushed.node), pushed).second;
    EXPECT_TRUE(first) << "step " << step << ": node " << pushed.node
                       << " of chunk " << pushed.chunk << " again";
  }
  return sums;
}

void TrainerFixture::ExpectSums(int64_t step, const std::set<int>& nodes,
                                int64_t version) const {
  const auto sums = SumsOf(step);
  EXPECT_EQ(sums.size(), nodes.size() * chunks()) << "step " << step;
  const ArenaLayout& layout = setup_->layout();
  const std::vector<float> weights = WeightsOf(version);
  std::vector<float> gradient(weights.size());
  setup_->RenewWeightCopies();
  for (const int node : nodes) {
    std::vector<double> sum(weights.size());
    LossSums total;
    const LeafRange leaves = LeavesUnder(node, kMicroBatches);
    for (int leaf = leaves.begin; leaf < leaves.end; ++leaf) {
      const Sampler::MicroBatch samples =
          setup_->sampler().MicroBatchOf(step, leaf);
      Batch batch;
      setup_->data().ReadTrain(samples.epoch, samples.indexes, &batch);
      GradientSink sink(gradient.data());
      const auto loss = setup_->model(0)->ForwardBackward(
          batch, setup_->job().seed(), step, leaf, weights.data(), &sink,
          /*observer=*/nullptr);
      ASSERT_TRUE(loss.ok()) << loss.status();
      total.loss += loss->loss;
      total.sample_count += loss->sample_count;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      const auto found = sums.find({chunk, node});
      ASSERT_NE(found, sums.end()) << "no node " << node << ", chunk " << chunk;
      const Pushed& pushed = found->second;
      EXPECT_EQ(pushed.sample_count, total.sample_count);
      EXPECT_NEAR(pushed.loss_sum, chunk == 0 ? total.loss : 0, 1e-9);
      for (size_t i = 0; i < pushed.gradient.size(); ++i) {
        // A few float32 roundings of sums below 10.
        ASSERT_NEAR(pushed.gradient[i], sum[layout.ChunkBegin(chunk) + i], 1e-5)
            << "step " << step << ", node " << node << ", chunk " << chunk;
      }
    }
  }
}

}  // namespace tributary
