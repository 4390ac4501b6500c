// A unit test of the layer and the loss. It ends with 0 if their gradients are
// right.
#include <cstdio>
#include <memory>
#include <string>

#include "focal_loss.h"
#include "slope.h"
#include "tributary/gradient_check.h"

namespace {

absl::Status CheckAll() {
  absl::Status status = tributary::CheckGradients(Slope(/*size=*/8));
  tributary::GradientCheckOptions options;
  options.classes = 3;
  status.Update(tributary::CheckGradients(
      tributary::LossSpec::Function(
          std::make_shared<FocalLoss>(options.classes, /*focus=*/2),
          /*width=*/options.classes),
      options));
  return status;
}

}  // namespace

int main() {
  const absl::Status status = CheckAll();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
