#include "worker/training_setup.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job.h"
#include "common/process.h"
#include "common/status_macros.h"

namespace tributary {
namespace {

// Evaluation keeps nothing for backward, so its batches may be larger than a
// leaf; smaller ones waste the hardware.
constexpr int64_t kMinPieceSamples = 16;

const char* UnitOf(DataInfo::Kind kind) {
  switch (kind) {
    case DataInfo::Kind::kImages:
      return "images";
    case DataInfo::Kind::kTokens:
      return "tokens";
    case DataInfo::Kind::kRows:
      break;
  }
  return "rows";
}

int64_t TotalSteps(const JobSpec& job, int64_t steps_per_epoch) {
  if (job.has_steps()) return job.steps();
  return std::max<int64_t>(
      1, static_cast<int64_t>(
             std::ceil(job.epochs() * static_cast<double>(steps_per_epoch))));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingSetup>> TrainingSetup::Create(
    const JobSpec& job, int lanes) {
  auto setup = std::unique_ptr<TrainingSetup>(new TrainingSetup());
  setup->job_ = job;
  TRIBUTARY_ASSIGN_OR_RETURN(setup->data_, OpenDataSet(job));
  const DataSet& data = *setup->data_;
  const int leaves = static_cast<int>(job.batch().micro_batches());
  setup->sampler_ = std::make_unique<Sampler>(job.seed(), data.train_samples(),
                                              job.batch().global(), leaves);

  const int64_t leaf_samples = job.batch().global() / leaves;
  setup->piece_samples_ = job.evaluation().batch() > 0
                              ? job.evaluation().batch()
                              : std::max(leaf_samples, kMinPieceSamples);
  const int64_t held_out =
      job.evaluation().disabled() ? 0 : data.evaluation_samples();
  const int64_t max_samples =
      held_out > 0 ? std::max(leaf_samples, setup->piece_samples_)
                   : leaf_samples;
  const std::optional<int64_t> available = AvailableMemoryBytes();
  for (int lane = 0; lane < lanes; ++lane) {
    // Memory is given out before it is there: by the time when it is used it is
    // too late for an error.
    const bool fits = lane == 0 || !available.has_value() ||
                      (lane + 1) * setup->lane_bytes() <= *available;
    if (!fits) break;
    std::unique_ptr<Device> device = CreateCpuDevice();
    absl::StatusOr<std::unique_ptr<Model>> model =
        CreateModel(job.model(), data.info(), max_samples, device.get());
    if (lane > 0 && absl::IsResourceExhausted(model.status())) break;
    if (!model.ok()) return model.status();
    setup->devices_.push_back(std::move(device));
    setup->models_.push_back(*std::move(model));
    if (lane > 0) continue;
    TRIBUTARY_RETURN_IF_ERROR(setup->LayOut());
    if (available.has_value() && setup->lane_bytes() > *available) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a leaf of ", leaf_samples, " samples needs ", setup->lane_bytes(),
          " bytes of memory, and ", *available,
          " are left on this machine: give the job more batch.micro_batches "
          "(it has ",
          leaves, "), or the worker more memory"));
    }
  }

  DataFacts& facts = setup->facts_;
  facts.set_train_samples(data.train_samples());
  facts.set_steps_per_epoch(setup->sampler_->steps_per_epoch());
  facts.set_steps(TotalSteps(job, facts.steps_per_epoch()));
  facts.set_evaluation_pieces((held_out + setup->piece_samples_ - 1) /
                              setup->piece_samples_);
  facts.set_fingerprint(data.fingerprint());
  facts.set_unit(UnitOf(data.info().kind));
  setup->rounds_ = std::make_unique<Rounds>(job, facts.steps());
  if (job.exchange().parameter_server().consistency().has_local_steps()) {
    for (int lane = 0; lane < setup->lanes(); ++lane) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          std::unique_ptr<Trajectory> trajectory,
          Trajectory::Create(job, facts.steps(), setup->layout_.get()));
      setup->trajectories_.push_back(std::move(trajectory));
    }
  }
  return setup;
}

absl::Status TrainingSetup::LayOut() {
  table_ = models_[0]->table();
  table_.set_chunk_elements(ChunkBytes(job_.exchange()) /
                            static_cast<int64_t>(sizeof(float)));
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout, ArenaLayout::Create(table_));
  layout_ = std::make_unique<ArenaLayout>(std::move(layout));
  return absl::OkStatus();
}

void TrainingSetup::KeepLanes(int count) {
  const size_t kept = std::max(count, 1);
  if (kept >= models_.size()) return;
  models_.resize(kept);
  devices_.resize(kept);
  if (!trajectories_.empty()) trajectories_.resize(kept);
}

}  // namespace tributary
