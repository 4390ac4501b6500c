#include "tests/simulation/processes/tiny_training.h"

#include <memory>
#include <utility>

#include "common/base/monotonic_clock.h"
#include "tests/simulation/jobs/tiny_model.h"
#include "tests/simulation/jobs/tiny_network.h"
#include "worker/models/network_model.h"

namespace tributary::simulation {
namespace {

// Samples have no contents; what a micro-batch yields depends on its number.
class TinyDataSet final : public DataSet {
 public:
  explicit TinyDataSet(const DataFacts& facts) : facts_(facts) {
    info_.sample_shape = {1};
  }
  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return facts_.train_samples(); }
  int64_t evaluation_samples() const override {
    return facts_.evaluation_pieces();
  }
  uint64_t fingerprint() const override { return facts_.fingerprint(); }
  void ReadTrain(int64_t, absl::Span<const int64_t> indexes,
                 Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indexes.size());
    batch->values.assign(indexes.size(), 0.f);
  }
  // A piece is one sample, which contains the piece's number.
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override {
    batch->samples = end - begin;
    for (int64_t piece = begin; piece < end; ++piece) {
      batch->values.push_back(static_cast<float>(piece));
    }
  }

 private:
  const DataFacts facts_;
  DataInfo info_;
};

class TinyModel final : public Model {
 public:
  TinyModel(World* world, absl::Duration micro_batch)
      : world_(world), micro_batch_(micro_batch) {}

  const ParameterTable& table() const override {
    return world_->scenario.table;
  }
  int64_t memory_bytes() const override { return 0; }
  void Initialize(uint64_t, const ArenaLayout& layout,
                  float* weights) const override {
    InitialWeights(world_->scenario.job, layout, weights);
  }

  absl::StatusOr<LossSums> ForwardBackward(const Batch& batch, uint64_t,
                                           int64_t step, int micro_batch,
                                           const WeightsView& weights,
                                           GradientSink* gradients,
                                           StepObserver* observer) override {
    const ArenaLayout& layout = world_->layout;
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      const int64_t begin = layout.ChunkBegin(chunk);
      if (!weights.Await(begin, begin + layout.ChunkSize(chunk))) {
        return absl::AbortedError("the micro-batch was given up");
      }
      if (world_->random.Chance(0.1)) Compute(0.1);
    }
    Compute(1);
    MicroBatchGradient(world_->scenario.job, layout, step, micro_batch,
                       batch.samples, weights.data(), gradients->data());
    if (world_->sabotage.wrong_gradient && step == 5 && micro_batch == 0) {
      gradients->data()[0] += 0.01f;
    }
    LossSums sums;
    sums.loss = MicroBatchLoss(layout, micro_batch, weights.data());
    sums.sample_count = batch.samples;
    observer->OnPhase(StepObserver::Phase::kBackward);
    for (int chunk = layout.chunk_count() - 1; chunk >= 0; --chunk) {
      gradients->Ready(layout.ChunkBegin(chunk));
      if (world_->random.Chance(0.1)) Compute(0.1);
    }
    return sums;
  }

  absl::StatusOr<LossSums> Evaluate(const Batch& batch,
                                    const float* weights) override {
    Compute(1);
    return EvaluatePiece(world_->layout, static_cast<int64_t>(batch.values[0]),
                         weights);
  }

  absl::Status NextTokenLogits(absl::Span<const int32_t>, const float*,
                               absl::Span<float>) override {
    return absl::UnimplementedError("not a language model");
  }

 private:
  // Takes this part of a micro-batch's time.
  void Compute(double part) {
    Sleep(world_->random.Between(micro_batch_ * part / 2,
                                 micro_batch_ * part * 1.5));
  }

  World* const world_;
  const absl::Duration micro_batch_;
};

// Returns sources of a network whose layers take time.
TrainingSources NetworkSources(World* world, absl::Duration micro_batch) {
  // A layer is computed three times: forward, and backward for its input and
  // for its weights. Not each of them takes time, because that takes events.
  constexpr double kPart = 0.1;
  const OnLayer on_layer = [world, micro_batch] {
    if (!world->random.Chance(0.3)) return;
    Sleep(world->random.Between(absl::ZeroDuration(), kPart * micro_batch));
  };
  TrainingSources sources;
  sources.open_data =
      [world](const JobSpec& job) -> absl::StatusOr<std::unique_ptr<DataSet>> {
    return MakeTinySamples(job, world->scenario.facts,
                           world->sabotage.wrong_gradient);
  };
  sources.build_graph = [world, on_layer](const ModelSpec&, const DataInfo&) {
    return absl::StatusOr<Graph>(BuildTinyNetwork(
        world->scenario.seed, world->scenario.job.sparse(), on_layer));
  };
  sources.create_model =
      [build = sources.build_graph](
          const ModelSpec& spec, const DataInfo& info, int64_t max_samples,
          Device* device, WeightCopies* copies,
          const NetworkPart& part) -> absl::StatusOr<std::unique_ptr<Model>> {
    return NetworkModel::Create(*build(spec, info), info, max_samples, device,
                                copies, part);
  };
  return sources;
}

}  // namespace

TrainingSources TinySources(World* world, absl::Duration micro_batch) {
  if (world->scenario.network()) return NetworkSources(world, micro_batch);
  TrainingSources sources;
  sources.open_data =
      [world](const JobSpec&) -> absl::StatusOr<std::unique_ptr<DataSet>> {
    return std::make_unique<TinyDataSet>(world->scenario.facts);
  };
  sources.create_model =
      [world, micro_batch](
          const ModelSpec&, const DataInfo&, int64_t, Device*, WeightCopies*,
          const NetworkPart&) -> absl::StatusOr<std::unique_ptr<Model>> {
    return std::make_unique<TinyModel>(world, micro_batch);
  };
  return sources;
}

}  // namespace tributary::simulation
