#include "common/optimizer/adam.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/numerics/power.h"
#include "common/optimizer/element_loops.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/option_checks.h"
#include "proto/job.pb.h"

namespace tributary {

TRIBUTARY_DEFINE_UPDATE_ELEMENTS(AdamRule)

namespace {

enum class Kind { kAdam, kAdamW, kLamb };

class Adam final : public Optimizer {
 public:
  template <typename Spec>
  Adam(std::string path, const Spec& spec, Kind kind)
      : beta1_(spec.beta1()),
        beta2_(spec.beta2()),
        epsilon_(spec.epsilon()),
        decay_({std::move(path), spec.learning_rate(), spec.weight_decay()}),
        kind_(kind) {}

  std::vector<std::string> slot_names() const override {
    return {"exp_avg", "exp_avg_sq"};
  }

  // The rule computes keep * w - step_size * m / (sqrt(v) root_scale +
  // epsilon).
  std::optional<OptimizerRule> DirectionAt(int64_t step) const override {
    if (kind_ != Kind::kLamb) return std::nullopt;
    AdamRule rule = Coefficients(step);
    rule.keep = static_cast<float>(decay_.weight_decay);
    rule.step_size = static_cast<float>(-1 / Correction(beta1_, step));
    return OptimizerRule(rule);
  }

 private:
  static double Correction(double beta, int64_t step) {
    return 1 - Power(beta, static_cast<double>(step + 1));
  }

  // Returns the coefficients that depend neither on the learning rate nor on
  // the weight decay.
  AdamRule Coefficients(int64_t step) const {
    AdamRule rule = {};
    rule.beta1 = static_cast<float>(beta1_);
    rule.rest1 = static_cast<float>(1 - beta1_);
    rule.beta2 = static_cast<float>(beta2_);
    rule.rest2 = static_cast<float>(1 - beta2_);
    rule.epsilon = static_cast<float>(epsilon_);
    rule.root_scale =
        static_cast<float>(1 / std::sqrt(Correction(beta2_, step)));
    return rule;
  }

  OptimizerRule RuleAt(int64_t step, double learning_rate,
                       bool decays) const override {
    const bool decoupled = kind_ != Kind::kAdam;
    const double weight_decay = decays ? decay_.weight_decay : 0;
    AdamRule rule = Coefficients(step);
    const double decay = decoupled ? learning_rate * weight_decay : 0;
    rule.keep = static_cast<float>(1 - decay);
    rule.decay = static_cast<float>(decay);
    rule.weight_decay = static_cast<float>(decoupled ? 0 : weight_decay);
    rule.step_size =
        static_cast<float>(learning_rate / Correction(beta1_, step));
    return OptimizerRule(rule);
  }

  absl::Status ValidateRateFactor(const std::string& path,
                                  double factor) const override {
    if (kind_ != Kind::kAdamW) return absl::OkStatus();
    return decay_.ValidateFactor(path, factor);
  }

  const double beta1_;
  const double beta2_;
  const double epsilon_;
  const DecoupledDecay decay_;  // Adam adds it to the gradient.
  const Kind kind_;
};

template <typename Spec>
absl::Status Validate(const std::string& path, const Spec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".beta1", spec.beta1()));
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".beta2", spec.beta2()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateEpsilon(path, spec.epsilon()));
  return NotNegative(path + ".weight_decay", spec.weight_decay());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdam(const std::string& path,
                                                    const AdamSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(Validate(path, spec));
  return std::make_unique<Adam>(path, spec, Kind::kAdam);
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdamW(const std::string& path,
                                                     const AdamSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(Validate(path, spec));
  const DecoupledDecay decay = {path, spec.learning_rate(),
                                spec.weight_decay()};
  TRIBUTARY_RETURN_IF_ERROR(decay.Validate());
  return std::make_unique<Adam>(path, spec, Kind::kAdamW);
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeLamb(const std::string& path,
                                                    const LambSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(Validate(path, spec));
  return std::make_unique<Adam>(path, spec, Kind::kLamb);
}

}  // namespace tributary
