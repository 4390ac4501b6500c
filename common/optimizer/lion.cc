#include "common/optimizer/lion.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/optimizer/element_loops.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/option_checks.h"
#include "proto/job.pb.h"

namespace tributary {

TRIBUTARY_DEFINE_UPDATE_ELEMENTS(LionRule)

namespace {

class Lion final : public Optimizer {
 public:
  Lion(const LionSpec& spec, DecoupledDecay decay)
      : beta1_(spec.beta1()), beta2_(spec.beta2()), decay_(std::move(decay)) {}

  std::vector<std::string> slot_names() const override { return {"exp_avg"}; }

 private:
  OptimizerRule RuleAt(int64_t /*step*/, double learning_rate,
                       bool decays) const override {
    const double decay = decays ? learning_rate * decay_.weight_decay : 0;
    return LionRule{
        static_cast<float>(learning_rate), static_cast<float>(beta1_),
        static_cast<float>(1 - beta1_),    static_cast<float>(beta2_),
        static_cast<float>(1 - beta2_),    static_cast<float>(1 - decay),
        static_cast<float>(decay)};
  }

  absl::Status ValidateRateFactor(const std::string& path,
                                  double factor) const override {
    return decay_.ValidateFactor(path, factor);
  }

  const double beta1_;
  const double beta2_;
  const DecoupledDecay decay_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeLion(const std::string& path,
                                                    const LionSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".beta1", spec.beta1()));
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".beta2", spec.beta2()));
  DecoupledDecay decay = {path, spec.learning_rate(), spec.weight_decay()};
  TRIBUTARY_RETURN_IF_ERROR(decay.Validate());
  return std::make_unique<Lion>(spec, std::move(decay));
}

}  // namespace tributary
