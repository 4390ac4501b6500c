#include "tests/library/model_engine.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "worker/data/open_data_set.h"

namespace tributary {
ModelEngine::ModelEngine(const JobSpec& job)
    : job_(ResolveJob(job)),
      data_(*OpenDataSet(job_)),
      device_(CreateCpuDevice(PrecisionOf(job_))) {
  read_weights = [](absl::Span<const float> from, void*, float* to) {
    std::copy(from.begin(), from.end(), to);
  };
  give_gradient = [](MicroBatch* micro_batch, int parameter,
                     absl::Span<const float> values) {
    micro_batch->Add(parameter, values);
  };
  const int64_t samples =
      std::max<int64_t>(job_.batch().global() / job_.batch().micro_batches(),
                        job_.evaluation().batch());
  model_ = *CreateModel(job_.model(), data_->info(), samples, device_.get());
  ParameterTable table = model_->table();
  table.set_chunk_elements(kArenaAlignment);
  layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
  weights_.resize(layout_->arena_elements());
  gradients_.resize(layout_->arena_elements());
}

std::vector<ParameterDeclaration> ModelEngine::Declarations() const {
  std::vector<ParameterDeclaration> declared;
  for (const Parameter& parameter : layout_->parameters()) {
    const auto initialize = [this, offset = parameter.offset](
                                Random*, absl::Span<float> values) {
      std::vector<float> arena(layout_->arena_elements());
      model_->Initialize(job_.seed(), *layout_, arena.data());
      std::copy_n(arena.begin() + offset, values.size(), values.begin());
    };
    declared.push_back({parameter.name, parameter.shape, initialize,
                        static_cast<ParameterGroup>(parameter.group)});
  }
  return declared;
}

template <typename Item>
void ModelEngine::ReadWeights(Item* item, void* gpu_stream) {
  for (size_t i = 0; i < layout_->parameters().size(); ++i) {
    read_weights(item->weights(static_cast<int>(i)), gpu_stream,
                 weights_.data() + layout_->parameters()[i].offset);
  }
}

void ModelEngine::Train(MicroBatch* micro_batch) {
  ReadWeights(micro_batch, micro_batch->gpu_stream());
  Batch batch;
  data_->ReadTrain(micro_batch->epoch(), micro_batch->indexes(), &batch);
  GradientSink gradients(gradients_.data());
  const LossSums sums = *model_->ForwardBackward(
      batch, job_.seed(), micro_batch->step(), micro_batch->number(),
      weights_.data(), &gradients, /*observer=*/nullptr);
  for (int i = static_cast<int>(layout_->parameters().size()) - 1; i >= 0;
       --i) {
    const Parameter& parameter = layout_->parameters()[i];
    give_gradient(
        micro_batch, i,
        {gradients_.data() + parameter.offset, size_t(parameter.size)});
  }
  micro_batch->Finish(sums.loss);
}

void ModelEngine::Evaluate(EvaluationPiece* piece) {
  ReadWeights(piece, /*gpu_stream=*/nullptr);
  Batch batch;
  data_->ReadEvaluation(piece->begin(), piece->end(), &batch);
  const LossSums sums = *model_->Evaluate(batch, weights_.data());
  piece->Report(sums.loss, sums.correct, sums.sample_count);
}

absl::Status ModelEngine::Run(Worker* worker) {
  while (Step* const step = worker->NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      if (before_micro_batch) before_micro_batch(&micro_batch);
      Train(&micro_batch);
    }
    for (EvaluationPiece& piece : step->evaluation_pieces()) Evaluate(&piece);
  }
  return worker->status();
}

absl::Status RunEngine(const std::string& coordinator, ModelEngine* engine) {
  Worker::Options options;
  options.coordinator = coordinator;
  options.log_level = "error";
  TRIBUTARY_ASSIGN_OR_RETURN(Worker worker, Worker::Connect(options));
  TRIBUTARY_RETURN_IF_ERROR(worker.Declare(engine->Declarations()));
  return engine->Run(&worker);
}

}  // namespace tributary
