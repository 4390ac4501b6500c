#include "common/optimizer/adam.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/optimizer/element_loops.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/option_checks.h"
#include "common/optimizer/power.h"
#include "proto/job.pb.h"

namespace tributary {

TRIBUTARY_DEFINE_UPDATE_ELEMENTS(AdamRule)

namespace {

class Adam final : public Optimizer {
 public:
  Adam(std::string path, const AdamSpec& spec, bool decoupled)
      : beta1_(spec.beta1()),
        beta2_(spec.beta2()),
        epsilon_(spec.epsilon()),
        decay_({std::move(path), spec.learning_rate(), spec.weight_decay()}),
        decoupled_(decoupled) {}

  std::vector<std::string> slot_names() const override {
    return {"exp_avg", "exp_avg_sq"};
  }

 private:
  OptimizerRule RuleAt(int64_t step, double learning_rate,
                       bool decays) const override {
    const double weight_decay = decays ? decay_.weight_decay : 0;
    const double correction1 = 1 - Power(beta1_, static_cast<double>(step + 1));
    const double correction2 = 1 - Power(beta2_, static_cast<double>(step + 1));
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
    if (!decoupled_) return absl::OkStatus();
    return decay_.ValidateFactor(path, factor);
  }

  const double beta1_;
  const double beta2_;
  const double epsilon_;
  const DecoupledDecay decay_;  // Added to the gradient if not decoupled_.
  const bool decoupled_;
};

absl::Status Validate(const std::string& path, const AdamSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".beta1", spec.beta1()));
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".beta2", spec.beta2()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateEpsilon(path, spec.epsilon()));
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
  const DecoupledDecay decay = {path, spec.learning_rate(),
                                spec.weight_decay()};
  TRIBUTARY_RETURN_IF_ERROR(decay.Validate());
  return std::make_unique<Adam>(path, spec, /*decoupled=*/true);
}

}  // namespace tributary
