#include "common/optimizer/sgd.h"

#include <cstdint>
#include <vector>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/optimizer/element_loops.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"

namespace tributary {

TRIBUTARY_DEFINE_UPDATE_ELEMENTS(PlainSgd)
TRIBUTARY_DEFINE_UPDATE_ELEMENTS(MomentumSgd<false>)
TRIBUTARY_DEFINE_UPDATE_ELEMENTS(MomentumSgd<true>)

namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdSpec& spec)
      : momentum_(static_cast<float>(spec.momentum())),
        weight_decay_(static_cast<float>(spec.weight_decay())),
        nesterov_(spec.nesterov()) {}

  std::vector<std::string> slot_names() const override {
    if (momentum_ == 0) return {};
    return {"momentum_buffer"};
  }

 private:
  OptimizerRule RuleAt(int64_t /*step*/, double learning_rate,
                       bool decays) const override {
    const float rate = static_cast<float>(learning_rate);
    const float decay = decays ? weight_decay_ : 0;
    if (momentum_ == 0) return PlainSgd{rate, decay};
    if (nesterov_) return MomentumSgd<true>{rate, momentum_, decay};
    return MomentumSgd<false>{rate, momentum_, decay};
  }

  const float momentum_;
  const float weight_decay_;
  const bool nesterov_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeSgd(const std::string& path,
                                                   const SgdSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".momentum", spec.momentum()));
  if (spec.nesterov() && spec.momentum() == 0) {
    return Error(path + ".nesterov", "needs a momentum above 0");
  }
  TRIBUTARY_RETURN_IF_ERROR(
      NotNegative(path + ".weight_decay", spec.weight_decay()));
  return std::make_unique<Sgd>(spec);
}

}  // namespace tributary
