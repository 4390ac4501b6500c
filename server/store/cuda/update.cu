#include "common/cuda/flushed.h"
#include "common/cuda/launch.h"
#include "server/store/cuda/update.h"

namespace tributary::cuda {
namespace {

// The rules, each for one element: g is the gradient, w the weight, and they
// return the new one. The order of operations is that of
// common/optimizer/optimizer_kernels.h.

struct PlainSgd {
  __device__ static Flushed Update(const OptimizerFactors& factors, Flushed g,
                                   Flushed w, const ChunkUpdatePass&, int64_t) {
    const SgdFactors& f = factors.sgd;
    return w - Flushed(f.learning_rate) * (g + Flushed(f.weight_decay) * w);
  }
};

template <bool kNesterov>
struct MomentumSgd {
  __device__ static Flushed Update(const OptimizerFactors& factors, Flushed g,
                                   Flushed w, const ChunkUpdatePass& pass,
                                   int64_t i) {
    const SgdFactors& f = factors.sgd;
    const Flushed momentum(f.momentum);
    float* const v = pass.slots[0] + i;
    const Flushed decayed = g + Flushed(f.weight_decay) * w;
    const Flushed velocity = momentum * Flushed(*v) + decayed;
    *v = velocity.value();
    const Flushed direction =
        kNesterov ? decayed + momentum * velocity : velocity;
    return w - Flushed(f.learning_rate) * direction;
  }
};

struct Adam {
  __device__ static Flushed Update(const OptimizerFactors& factors, Flushed g,
                                   Flushed w, const ChunkUpdatePass& pass,
                                   int64_t i) {
    const AdamFactors& f = factors.adam;
    float* const m = pass.slots[0] + i;
    float* const v = pass.slots[1] + i;
    const Flushed decayed = g + Flushed(f.weight_decay) * w;
    const Flushed first =
        Flushed(f.beta1) * Flushed(*m) + Flushed(f.rest1) * decayed;
    const Flushed second =
        Flushed(f.beta2) * Flushed(*v) + Flushed(f.rest2) * (decayed * decayed);
    *m = first.value();
    *v = second.value();
    const Flushed root =
        SquareRoot(second) * Flushed(f.root_scale) + Flushed(f.epsilon);
    return Flushed(f.keep) * w - Flushed(f.step_size) * (first / root);
  }
};

template <typename Rule>
void UpdateBy(Stream& stream, const ChunkUpdatePass& pass) {
  ForEach(stream, "UpdateChunk", pass.elements, [=] __device__(int64_t i) {
    const ChunkRow row = pass.rows[i / kRowElements];
    if (i % kRowElements >= row.elements) {
      pass.weights[i] = 0;
      return;
    }
    const Flushed sum(pass.sum[i]);
    const Flushed w(pass.weights[i]);
    Flushed fresh(0);
    if (row.group == RowGroup::kStatistics) {
      fresh = w - sum * Flushed(pass.statistics_scale);
    } else {
      const OptimizerFactors& factors =
          row.group == RowGroup::kDecay ? pass.decayed : pass.plain;
      fresh =
          Rule::Update(factors, sum * Flushed(pass.gradient_scale), w, pass, i);
    }
    pass.weights[i] = fresh.value();
  });
}

}  // namespace

void UpdateChunk(Stream& stream, const ChunkUpdatePass& pass) {
  switch (pass.plain.rule) {
    case OptimizerFactors::Rule::kPlainSgd:
      return UpdateBy<PlainSgd>(stream, pass);
    case OptimizerFactors::Rule::kMomentumSgd:
      return UpdateBy<MomentumSgd<false>>(stream, pass);
    case OptimizerFactors::Rule::kNesterovSgd:
      return UpdateBy<MomentumSgd<true>>(stream, pass);
    case OptimizerFactors::Rule::kAdam:
      return UpdateBy<Adam>(stream, pass);
  }
}

}  // namespace tributary::cuda
