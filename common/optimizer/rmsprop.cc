#include "common/optimizer/rmsprop.h"

#include <cstdint>
#include <vector>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/optimizer/element_loops.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/option_checks.h"
#include "proto/job.pb.h"

namespace tributary {

TRIBUTARY_DEFINE_UPDATE_ELEMENTS(PlainRmsprop)
TRIBUTARY_DEFINE_UPDATE_ELEMENTS(MomentumRmsprop)

namespace {

class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(const RmspropSpec& spec)
      : alpha_(static_cast<float>(spec.alpha())),
        rest_(static_cast<float>(1 - spec.alpha())),
        epsilon_(static_cast<float>(spec.epsilon())),
        momentum_(static_cast<float>(spec.momentum())),
        weight_decay_(static_cast<float>(spec.weight_decay())) {}

  std::vector<std::string> slot_names() const override {
    if (momentum_ == 0) return {"square_avg"};
    return {"square_avg", "momentum_buffer"};
  }

 private:
  OptimizerRule RuleAt(int64_t /*step*/, double learning_rate,
                       bool decays) const override {
    const PlainRmsprop plain = {static_cast<float>(learning_rate), alpha_,
                                rest_, epsilon_, decays ? weight_decay_ : 0};
    if (momentum_ == 0) return plain;
    return MomentumRmsprop{plain, momentum_};
  }

  const float alpha_;
  const float rest_;  // 1 - alpha
  const float epsilon_;
  const float momentum_;
  const float weight_decay_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeRmsprop(
    const std::string& path, const RmspropSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".alpha", spec.alpha()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateEpsilon(path, spec.epsilon()));
  TRIBUTARY_RETURN_IF_ERROR(BelowOne(path + ".momentum", spec.momentum()));
  TRIBUTARY_RETURN_IF_ERROR(
      NotNegative(path + ".weight_decay", spec.weight_decay()));
  return std::make_unique<Rmsprop>(spec);
}

}  // namespace tributary
