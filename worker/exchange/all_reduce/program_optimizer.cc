#include "worker/exchange/all_reduce/program_optimizer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status_macros.h"
#include "common/optimizer/mean_gradient.h"

namespace tributary {
namespace {

// Creates the optimizer without slots, which ProgramOptimizer has itself.
std::unique_ptr<Optimizer> MakeStateless() {
  ProgramRuleSpec spec;
  spec.set_state_arrays(0);
  return *MakeMeanGradient(/*path=*/"", spec);
}

Buffer Zeros(int64_t elements) {
  Buffer zeros = AllocateBuffer(elements);
  std::fill_n(zeros.get(), elements, 0.f);
  return zeros;
}

}  // namespace

ProgramOptimizer::ProgramOptimizer(const JobSpec& job, int64_t steps,
                                   const ArenaLayout* layout,
                                   std::unique_ptr<Optimizer> optimizer,
                                   ProgramRule* rule)
    : MemberOptimizer(job, steps, layout, std::move(optimizer)),
      rule_(*rule),
      gradients_(job, steps, layout, MakeStateless(),
                 layout->ChunksOf(/*shard=*/0, /*servers=*/1)),
      zeros_(Zeros(layout->chunk_elements())),
      mean_(Zeros(layout->arena_elements())),
      elements_before_(1) {
  for (int chunk = 0; chunk < layout->chunk_count(); ++chunk) {
    int64_t elements = elements_before_.back();
    for (const ChunkSegment& segment : layout->ChunkSegments(chunk)) {
      elements += segment.end - segment.begin;
    }
    elements_before_.push_back(elements);
  }
  state_.resize(slots() * elements_before_.back() * sizeof(float));
}

absl::Status ProgramOptimizer::Update(const Step& step,
                                      absl::Span<const WeightsUpdate> updates) {
  if (!std::exchange(loaded_, true)) {
    TRIBUTARY_RETURN_IF_ERROR(rule_.Load(state_));
  }
  saved_ = false;
  // The chunks of a version are adjacent, beginning with chunk 0.
  const float* const weights = updates.front().weights;
  float* const new_weights = updates.front().new_weights;
  if (recipe_.Skips(step.norm)) {
    std::copy_n(weights, layout_.arena_elements(), new_weights);
    return absl::OkStatus();
  }
  std::vector<WeightsUpdate> means(updates.begin(), updates.end());
  for (WeightsUpdate& mean : means) {
    mean.weights = zeros_.get();
    mean.new_weights = mean_.get() + layout_.ChunkBegin(mean.chunk);
  }
  TRIBUTARY_RETURN_IF_ERROR(gradients_.Update(step, means));
  ProgramRule::Update update;
  update.step = step.number;
  for (const Parameter& parameter : layout_.parameters()) {
    float* const mean = mean_.get() + parameter.offset;
    const float* const from = weights + parameter.offset;
    float* const to = new_weights + parameter.offset;
    const bool trained = parameter.group != STATISTICS;
    if (!trained) {
      for (int64_t i = 0; i < parameter.size; ++i) to[i] = from[i] + mean[i];
    }
    update.weights.push_back(from);
    update.gradients.push_back(trained ? mean : nullptr);
    update.new_weights.push_back(to);
  }
  return rule_.Apply(update);
}

template <typename Visit>
void ProgramOptimizer::VisitState(int chunk, const Visit& visit) {
  for (int slot = 0; slot < slots(); ++slot) {
    int64_t element = slot * elements_before_.back() + elements_before_[chunk];
    for (const ChunkSegment& segment : layout_.ChunkSegments(chunk)) {
      const int64_t count = segment.end - segment.begin;
      visit(slot, segment.begin, state_.data() + element * sizeof(float),
            count * sizeof(float));
      element += count;
    }
  }
}

absl::Status ProgramOptimizer::CopyState(const float* weights,
                                         const Snapshot::Chunk& to) {
  if (!std::exchange(saved_, true)) {
    std::fill(state_.begin(), state_.end(), 0);
    TRIBUTARY_RETURN_IF_ERROR(rule_.Save(absl::MakeSpan(state_)));
  }
  std::copy_n(weights, to.elements, to.values.get());
  for (const Buffer& slot : to.slots) {
    std::fill_n(slot.get(), to.elements, 0.f);
  }
  VisitState(to.number,
             [&](int slot, int64_t begin, const char* state, int64_t bytes) {
               std::memcpy(to.slots[slot].get() + begin, state, bytes);
             });
  return absl::OkStatus();
}

void ProgramOptimizer::Restore(const Snapshot::Chunk& chunk) {
  VisitState(chunk.number,
             [&](int slot, int64_t begin, char* state, int64_t bytes) {
               std::memcpy(state, chunk.slots[slot].get() + begin, bytes);
             });
}

}  // namespace tributary
