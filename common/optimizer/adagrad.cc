#include "common/optimizer/adagrad.h"

#include <cstdint>
#include <vector>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/optimizer/element_loops.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/option_checks.h"
#include "proto/job.pb.h"

namespace tributary {

TRIBUTARY_DEFINE_UPDATE_ELEMENTS(AdagradRule)

namespace {

class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const AdagradSpec& spec)
      : rate_decay_(spec.rate_decay()),
        epsilon_(static_cast<float>(spec.epsilon())),
        weight_decay_(static_cast<float>(spec.weight_decay())) {}

  std::vector<std::string> slot_names() const override { return {"sum"}; }

 private:
  OptimizerRule RuleAt(int64_t step, double learning_rate,
                       bool decays) const override {
    const double divisor = 1 + static_cast<double>(step) * rate_decay_;
    return AdagradRule{static_cast<float>(learning_rate / divisor), epsilon_,
                       decays ? weight_decay_ : 0};
  }

  const double rate_decay_;
  const float epsilon_;
  const float weight_decay_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdagrad(
    const std::string& path, const AdagradSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(
      NotNegative(path + ".rate_decay", spec.rate_decay()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateEpsilon(path, spec.epsilon()));
  TRIBUTARY_RETURN_IF_ERROR(
      NotNegative(path + ".weight_decay", spec.weight_decay()));
  return std::make_unique<Adagrad>(spec);
}

}  // namespace tributary
