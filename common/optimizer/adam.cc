#include "common/optimizer/adam.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/optimizer/element_loops.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"

namespace tributary {

TRIBUTARY_DEFINE_UPDATE_ELEMENTS(AdamRule)

namespace {

// The smallest epsilon that a job may set. Smaller values are 0 in float32 or
// have no effect beside any gradient.
constexpr double kMinEpsilon = 1e-30;

// Returns base^exponent. Computes it by squaring, because the C library's pow
// may differ in its last bit between processors.
double Power(double base, int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

class Adam final : public Optimizer {
 public:
  Adam(std::string path, const AdamSpec& spec, bool decoupled)
      : path_(std::move(path)),
        peak_learning_rate_(spec.learning_rate()),
        beta1_(spec.beta1()),
        beta2_(spec.beta2()),
        epsilon_(spec.epsilon()),
        weight_decay_(spec.weight_decay()),
        decoupled_(decoupled) {}

  std::vector<std::string> slot_names() const override {
    return {"exp_avg", "exp_avg_sq"};
  }

 private:
  OptimizerRule RuleAt(int64_t step, double learning_rate,
                       bool decays) const override {
    const double weight_decay = decays ? weight_decay_ : 0;
    const double correction1 = 1 - Power(beta1_, step + 1);
    const double correction2 = 1 - Power(beta2_, step + 1);
    OptimizerRule rule;
    AdamRule& f = rule.emplace<AdamRule>();
    f.beta1 = static_cast<float>(beta1_);
    f.rest1 = static_cast<float>(1 - beta1_);
    f.beta2 = static_cast<float>(beta2_);
    f.rest2 = static_cast<float>(1 - beta2_);
    f.epsilon = static_cast<float>(epsilon_);
    const double decay = decoupled_ ? learning_rate * weight_decay : 0;
    f.keep = static_cast<float>(1 - decay);
    f.decay = static_cast<float>(decay);
    f.weight_decay = static_cast<float>(decoupled_ ? 0 : weight_decay);
    f.step_size = static_cast<float>(learning_rate / correction1);
    f.root_scale = static_cast<float>(1 / std::sqrt(correction2));
    return rule;
  }

  absl::Status ValidateRateFactor(const std::string& path,
                                  double factor) const override {
    if (decoupled_ && peak_learning_rate_ * factor * weight_decay_ >= 1) {
      return Error(path, factor, " times ", path_, ".weight_decay ",
                   weight_decay_, " and the learning rate ",
                   peak_learning_rate_,
                   " is not below 1: every step would set the weights to 0");
    }
    return absl::OkStatus();
  }

  const std::string path_;  // The path of the options in the job.
  const double peak_learning_rate_;
  const double beta1_;
  const double beta2_;
  const double epsilon_;
  const double weight_decay_;
  const bool decoupled_;
};

absl::Status Validate(const std::string& path, const AdamSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".beta1", spec.beta1()));
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".beta2", spec.beta2()));
  if (spec.epsilon() < kMinEpsilon) {
    return Error(path + ".epsilon", spec.epsilon(), " is not at least ",
                 kMinEpsilon);
  }
  TRIBUTARY_RETURN_IF_ERROR(Positive(path + ".epsilon", spec.epsilon()));
  return NotNegative(path + ".weight_decay", spec.weight_decay());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdam(const std::string& path,
                                                    const AdamSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(Validate(path, spec));
  return std::make_unique<Adam>(path, spec, /*decoupled=*/false);
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdamW(const std::string& path,
                                                     const AdamSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(Validate(path, spec));
  if (spec.learning_rate() * spec.weight_decay() >= 1) {
    return Error(path + ".weight_decay", spec.weight_decay(),
                 " times the learning rate ", spec.learning_rate(),
                 " is not below 1: every step would set the weights to 0");
  }
  return std::make_unique<Adam>(path, spec, /*decoupled=*/true);
}

}  // namespace tributary
