// An optimizer's rule at one step, as the numbers in its formula.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_FACTORS_H_
#define TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_FACTORS_H_

namespace tributary {

struct SgdFactors {
  float learning_rate;
  float momentum;
  float weight_decay;
};

struct AdamFactors {
  float beta1;
  float rest1;  // 1 - beta1
  float beta2;
  float rest2;
  float epsilon;
  // The decoupled decay: w is multiplied with this first. 1 for Adam.
  float keep;
  // Of the gradient; 0 for AdamW.
  float weight_decay;
  // learning_rate / (1 - beta1^t)
  float step_size;
  // 1 / sqrt(1 - beta2^t)
  float root_scale;
};

// The formulas are those of optimizer_kernels.h: each operation rounds to
// float32, and denormal numbers count as zero.
struct OptimizerFactors {
  enum class Rule {
    kPlainSgd,
    kMomentumSgd,
    kNesterovSgd,
    kAdam,  // AdamW too.
  };
  Rule rule = Rule::kPlainSgd;
  SgdFactors sgd = {};    // Of the first three rules.
  AdamFactors adam = {};  // Of kAdam.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_FACTORS_H_
