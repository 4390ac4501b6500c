#include "common/optimizer/mean_gradient.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"

namespace tributary {
namespace {

// Most arrays of state that a job may ask for.
// As many as a checkpoint may contain.
constexpr int64_t kMaxStateArrays = 16;

class MeanGradient final : public Optimizer {
 public:
  explicit MeanGradient(int64_t arrays) : arrays_(arrays) {}

  std::vector<std::string> slot_names() const override {
    std::vector<std::string> names;
    for (int64_t i = 0; i < arrays_; ++i) {
      names.push_back(absl::StrCat("state_", i));
    }
    return names;
  }

 private:
  OptimizerRule RuleAt(int64_t /*step*/, double /*learning_rate*/,
                       bool /*decays*/) const override {
    return PlainSgd{/*learning_rate=*/-1, /*weight_decay=*/0};
  }

  const int64_t arrays_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeMeanGradient(
    const std::string& path, const ProgramRuleSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".state_arrays", spec.state_arrays(), 0, kMaxStateArrays));
  return std::make_unique<MeanGradient>(spec.state_arrays());
}

}  // namespace tributary
