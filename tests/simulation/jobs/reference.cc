#include "tests/simulation/jobs/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "absl/types/span.h"
#include "common/job/exchange_traits.h"
#include "common/job/rounds.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"
#include "common/optimizer/update_recipe.h"
#include "tests/simulation/jobs/reference_rows.h"
#include "tests/simulation/jobs/tiny_model.h"
#include "tests/simulation/jobs/tiny_network.h"
#include "worker/data/sampler.h"
#include "worker/models/network_model.h"
#include "worker/training/local_sgd.h"
#include "worker/training/training_setup.h"

namespace tributary::simulation {
namespace {

Sampler SamplerOf(const Scenario& scenario) {
  const JobSpec& job = scenario.job;
  return Sampler(job.seed(), scenario.facts.train_samples(),
                 job.batch().global(),
                 static_cast<int>(job.batch().micro_batches()));
}

// What workers compute.
class Computation {
 public:
  virtual ~Computation() = default;
  virtual void Initialize(float* weights) const = 0;
  // Writes the gradient of a micro-batch of the step.
  virtual void Gradient(int64_t step, int64_t micro_batch, const float* weights,
                        float* gradient) = 0;
  virtual LossSums Evaluate(int64_t piece, const float* weights) const = 0;
};

class TinyModelComputation final : public Computation {
 public:
  TinyModelComputation(const Scenario& scenario, const ArenaLayout& layout)
      : scenario_(scenario), layout_(layout) {}

  void Initialize(float* weights) const override {
    InitialWeights(scenario_.job, layout_, weights);
  }
  void Gradient(int64_t step, int64_t micro_batch, const float* weights,
                float* gradient) override {
    MicroBatchGradient(
        scenario_.job, layout_, step, micro_batch,
        SampleCounts(scenario_, step)[static_cast<size_t>(micro_batch)],
        weights, gradient);
  }
  LossSums Evaluate(int64_t piece, const float* weights) const override {
    return EvaluatePiece(layout_, piece, weights);
  }

 private:
  const Scenario& scenario_;
  const ArenaLayout& layout_;
};

// Where a network writes the gradients of vectors, too.
class VectorSink final : public GradientSink {
 public:
  VectorSink(float* data, const Batch& batch)
      : GradientSink(data, batch.samples), gradients_(batch.vectors.size()) {}
  float* VectorGradients() override { return gradients_.data(); }
  const std::vector<float>& gradients() const { return gradients_; }

 private:
  std::vector<float> gradients_;
};

// Computes the network of a pipeline without stages, or that of a job with
// tables.
class NetworkComputation final : public Computation {
 public:
  NetworkComputation(const Scenario& scenario, const ArenaLayout& layout,
                     ReferenceRows* rows)
      : job_(scenario.job),
        layout_(layout),
        rows_(rows),
        samples_(MakeTinySamples(job_, scenario.facts, /*wrong=*/false)),
        sampler_(SamplerOf(scenario)),
        device_(*MakeCpuDevice(PrecisionOf(job_))),
        model_(*NetworkModel::Create(
            BuildTinyNetwork(scenario.seed, job_.sparse(),
                             /*on_layer=*/nullptr),
            samples_->info(),
            job_.batch().global() / job_.batch().micro_batches(), device_.get(),
            /*copies=*/nullptr, NetworkPart())) {}

  void Initialize(float* weights) const override {
    model_->Initialize(job_.seed(), layout_, weights);
  }
  void Gradient(int64_t step, int64_t micro_batch, const float* weights,
                float* gradient) override {
    const Sampler::MicroBatch samples =
        sampler_.MicroBatchOf(step, static_cast<int>(micro_batch));
    Batch batch;
    samples_->ReadTrain(samples.epoch, samples.indexes, &batch);
    rows_->SetTrainVectors(&batch);
    VectorSink sink(gradient, batch);
    const auto computed = model_->ForwardBackward(
        batch, job_.seed(), step, static_cast<int>(micro_batch), weights, &sink,
        /*observer=*/nullptr);
    if (!computed.ok()) std::abort();
    rows_->AddMicroBatch(batch, sink.gradients());
  }
  LossSums Evaluate(int64_t piece, const float* weights) const override {
    Batch batch;
    samples_->ReadEvaluation(piece, piece + 1, &batch);
    rows_->SetEvaluationVectors(&batch);
    return *model_->Evaluate(batch, weights);
  }

 private:
  const JobSpec& job_;
  const ArenaLayout& layout_;
  ReferenceRows* const rows_;
  const std::unique_ptr<DataSet> samples_;
  const Sampler sampler_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Model> model_;
};

std::unique_ptr<Computation> MakeComputation(const Scenario& scenario,
                                             const ArenaLayout& layout,
                                             ReferenceRows* rows) {
  if (scenario.network()) {
    return std::make_unique<NetworkComputation>(scenario, layout, rows);
  }
  return std::make_unique<TinyModelComputation>(scenario, layout);
}

// Returns a leaf's gradient, or the sum of the two subtrees of `node`.
std::vector<float> SumUnder(
    int64_t node, const std::vector<std::vector<float>>& micro_batches) {
  const auto count = static_cast<int64_t>(micro_batches.size());
  if (node >= count) return micro_batches[static_cast<size_t>(node - count)];
  std::vector<float> left = SumUnder(2 * node, micro_batches);
  const std::vector<float> right = SumUnder(2 * node + 1, micro_batches);
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

// As GradientSquares: in blocks of 1,024, each sixteen partial sums that are
// added as a tree.
double ChunkSquares(const float* x, int64_t count) {
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += 1024) {
    double lanes[16] = {};
    for (int64_t i = begin; i < std::min(begin + 1024, count); ++i) {
      lanes[i % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    for (int width = 16; width > 1; width /= 2) {
      for (int i = 0; i < width / 2; ++i) {
        lanes[i] = lanes[2 * i] + lanes[2 * i + 1];
      }
    }
    total += lanes[0];
  }
  return total;
}

double NormOf(const std::vector<float>& sum, const ReferenceRows& rows,
              const ArenaLayout& layout, int64_t sample_count) {
  double squares = 0;
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    squares += ChunkSquares(sum.data() + layout.ChunkBegin(chunk),
                            layout.ChunkSize(chunk));
  }
  rows.AddSquares(&squares);
  return std::sqrt(squares) / static_cast<double>(sample_count);
}

// Returns what multiplies the learning rate of the parameter that begins at
// each offset: 1, or with LAMB the norm of its weights, divided by that of the
// step's direction.
std::map<int64_t, float> TrustRatiosOf(const Optimizer& optimizer,
                                       const ArenaLayout& layout, int64_t step,
                                       float scale,
                                       const std::vector<float>& sum,
                                       const ModelState& state) {
  std::map<int64_t, float> ratios;
  const std::optional<OptimizerRule> rule = optimizer.DirectionAt(step);
  for (const Parameter& parameter : layout.parameters()) {
    const int64_t begin = parameter.offset, end = begin + parameter.size;
    ratios[begin] = 1;
    if (!rule.has_value() || parameter.group != DECAY) continue;
    std::vector<float> directions(sum.size());
    std::vector<std::vector<float>> copies = state.slots;
    std::vector<float*> slots;
    for (std::vector<float>& slot : copies) slots.push_back(slot.data());
    const ChunkSegment segment = {begin, end};
    UpdateArguments update;
    update.gradient_sum = sum.data();
    update.weights = state.weights.data();
    update.new_weights = directions.data();
    update.slots = absl::MakeSpan(slots);
    update.segments = absl::MakeConstSpan(&segment, 1);
    OptimizerStep{*rule, *rule, scale}.Update(update);
    double of_weights = 0, of_directions = 0;
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      const int64_t from = std::max(begin, layout.ChunkBegin(chunk));
      const int64_t to =
          std::min(end, layout.ChunkBegin(chunk) + layout.ChunkSize(chunk));
      if (from >= to) continue;
      of_weights += ChunkSquares(state.weights.data() + from, to - from);
      of_directions += ChunkSquares(directions.data() + from, to - from);
    }
    if (of_weights > 0 && of_directions > 0) {
      ratios[begin] =
          static_cast<float>(std::sqrt(of_weights) / std::sqrt(of_directions));
    }
  }
  return ratios;
}

// The factor of the learning rate with the schedule PLATEAU: PyTorch's
// ReduceLROnPlateau.
class ReferencePlateau {
 public:
  explicit ReferencePlateau(const ScheduleSpec& schedule)
      : schedule_(schedule) {}

  bool active() const { return schedule_.decay() == ScheduleSpec::PLATEAU; }
  double factor() const { return factor_; }
  void Add(double loss) {
    if (loss < best_ * (1 - schedule_.threshold())) {
      best_ = loss;
      bad_ = 0;
    } else {
      ++bad_;
    }
    if (cooldown_ > 0) {
      --cooldown_;
      bad_ = 0;
    }
    if (bad_ <= schedule_.patience()) return;
    factor_ *= schedule_.decay_factor();
    cooldown_ = schedule_.cooldown();
    bad_ = 0;
  }

 private:
  const ScheduleSpec schedule_;
  double factor_ = 1;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t bad_ = 0, cooldown_ = 0;
};

// Returns the mean loss of all pieces, of which there is one at least.
double EvaluationLoss(const Scenario& scenario, const Computation& computation,
                      const std::vector<float>& weights) {
  double loss = 0;
  int64_t sample_count = 0;
  for (int64_t piece = 0; piece < scenario.facts.evaluation_pieces(); ++piece) {
    const LossSums sums = computation.Evaluate(piece, weights.data());
    loss += sums.loss;
    sample_count += sums.sample_count;
  }
  return loss / static_cast<double>(sample_count);
}

// Takes the local steps of a round, as a worker does. Writes the outer
// gradient.
void LocalGradient(const Scenario& scenario, const Rounds& rounds,
                   int64_t round, int64_t micro_batch, const float* weights,
                   Computation* computation, LocalSgd* local_sgd,
                   float* gradient) {
  local_sgd->Begin(weights, rounds.StepsAfter(round));
  while (local_sgd->step() < rounds.StepsAfter(round + 1)) {
    const int64_t step = local_sgd->step();
    const int64_t sample_count =
        SampleCounts(scenario, step)[static_cast<size_t>(micro_batch)];
    computation->Gradient(step, micro_batch, local_sgd->weights(), gradient);
    local_sgd->Step(gradient, sample_count);
  }
  local_sgd->OuterGradient(gradient);
}

}  // namespace

std::vector<int64_t> SampleCounts(const Scenario& scenario, int64_t step) {
  const auto micro_batches =
      static_cast<int>(scenario.job.batch().micro_batches());
  const Sampler sampler = SamplerOf(scenario);
  std::vector<int64_t> counts;
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    counts.push_back(static_cast<int64_t>(
        sampler.MicroBatchOf(step, micro_batch).indexes.size()));
  }
  return counts;
}

int64_t SampleCountOfRound(const Scenario& scenario, int64_t round) {
  const Rounds rounds(scenario.job, scenario.facts.steps());
  int64_t sum = 0;
  for (int64_t step = rounds.StepsAfter(round);
       step < rounds.StepsAfter(round + 1); ++step) {
    for (const int64_t count : SampleCounts(scenario, step)) sum += count;
  }
  return sum;
}

ReferenceRun TrainReference(const Scenario& scenario,
                            const ArenaLayout& layout) {
  const JobSpec job = JobOfRounds(scenario.job);
  const Rounds rounds(scenario.job, scenario.facts.steps());
  const auto optimizer = Optimizer::Create(job.optimizer());
  if (!optimizer.ok()) std::abort();
  const auto elements = static_cast<size_t>(layout.arena_elements());
  ReferenceRun run;
  run.state.weights.resize(elements);
  ReferenceRows rows(job);
  const std::unique_ptr<Computation> computation =
      MakeComputation(scenario, layout, &rows);
  computation->Initialize(run.state.weights.data());
  run.state.slots.assign((*optimizer)->slots(), std::vector<float>(elements));
  const int64_t micro_batches = job.batch().micro_batches();
  std::unique_ptr<LocalSgd> local_sgd;
  if (ResolveExchange(scenario.job).local_sgd) {
    local_sgd =
        *LocalSgd::Create(scenario.job, scenario.facts.steps(), &layout);
  }
  ReferencePlateau plateau(job.schedule());
  for (int64_t step = 0; step < rounds.count(); ++step) {
    if (plateau.active() && step > 0 &&
        step % job.evaluation().every_steps() == 0) {
      plateau.Add(EvaluationLoss(scenario, *computation, run.state.weights));
    }
    std::vector<std::vector<float>> gradients;
    for (int64_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
      gradients.emplace_back(elements);
      if (local_sgd != nullptr) {
        LocalGradient(scenario, rounds, step, micro_batch,
                      run.state.weights.data(), computation.get(),
                      local_sgd.get(), gradients.back().data());
        continue;
      }
      computation->Gradient(step, micro_batch, run.state.weights.data(),
                            gradients.back().data());
    }
    const std::vector<float> sum = SumUnder(1, gradients);
    rows.Sum();
    const int64_t sample_count = SampleCountOfRound(scenario, step);
    const double norm = NormOf(sum, rows, layout, sample_count);
    if (job.on_nonfinite() == JobSpec::SKIP && !std::isfinite(norm)) {
      run.skipped += rounds.StepsAfter(step + 1) - rounds.StepsAfter(step);
      rows.Skip();
      continue;
    }
    const float scale = GradientScale(sample_count, job.clip_norm(), norm);
    const double rate =
        LearningRateAt(job, rounds.count(), step) * plateau.factor();
    const std::map<int64_t, float> ratios =
        TrustRatiosOf(**optimizer, layout, step, scale, sum, run.state);
    std::vector<float> next(elements);
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      const int64_t begin = layout.ChunkBegin(chunk);
      std::vector<float*> slots;
      for (std::vector<float>& slot : run.state.slots) {
        slots.push_back(slot.data() + begin);
      }
      std::vector<ChunkSegment> segments =
          layout.ChunkSegments(chunk, /*by_parameter=*/true);
      for (ChunkSegment& segment : segments) {
        segment.learning_rate_factor *=
            ratios.at(layout.ParameterAt(begin + segment.begin).offset);
      }
      UpdateStep numbers;
      UpdateArguments update;
      update.gradient_sum = sum.data() + begin;
      numbers.gradient_scale = scale;
      update.weights = run.state.weights.data() + begin;
      update.new_weights = next.data() + begin;
      update.slots = absl::MakeSpan(slots);
      update.segments = segments;
      numbers.learning_rate = rate;
      numbers.number = step;
      (*optimizer)->At(numbers).Update(update);
    }
    run.state.weights = std::move(next);
    rows.Apply(scale, rate / PeakLearningRate(job.optimizer()));
  }
  run.state.tables = rows.Rows();
  if (scenario.facts.evaluation_pieces() > 0) {
    run.evaluation_loss =
        EvaluationLoss(scenario, *computation, run.state.weights);
  }
  return run;
}

}  // namespace tributary::simulation
