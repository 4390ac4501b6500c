#include "common/optimizer/adadelta.h"

#include <cstdint>
#include <vector>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/optimizer/element_loops.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/option_checks.h"
#include "proto/job.pb.h"

namespace tributary {

TRIBUTARY_DEFINE_UPDATE_ELEMENTS(AdadeltaRule)

namespace {

class Adadelta final : public Optimizer {
 public:
  explicit Adadelta(const AdadeltaSpec& spec)
      : rho_(static_cast<float>(spec.rho())),
        rest_(static_cast<float>(1 - spec.rho())),
        epsilon_(static_cast<float>(spec.epsilon())),
        weight_decay_(static_cast<float>(spec.weight_decay())) {}

  std::vector<std::string> slot_names() const override {
    return {"square_avg", "acc_delta"};
  }

 private:
  OptimizerRule RuleAt(int64_t /*step*/, double learning_rate,
                       bool decays) const override {
    return AdadeltaRule{static_cast<float>(learning_rate), rho_, rest_,
                        epsilon_, decays ? weight_decay_ : 0};
  }

  const float rho_;
  const float rest_;  // 1 - rho
  const float epsilon_;
  const float weight_decay_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdadelta(
    const std::string& path, const AdadeltaSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".rho", spec.rho()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateEpsilon(path, spec.epsilon()));
  TRIBUTARY_RETURN_IF_ERROR(
      NotNegative(path + ".weight_decay", spec.weight_decay()));
  return std::make_unique<Adadelta>(spec);
}

}  // namespace tributary
