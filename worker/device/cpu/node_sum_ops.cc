#include "common/numerics/half.h"
#include "worker/device/cpu/cpu_ops.h"

namespace tributary::cpu {
namespace {

class CpuNodeSumOps final : public NodeSumOps {
 public:
  void Keep(const Arguments& args) override {
    RoundedCopy(args.dtype, args.x, args.sum, args.count);
  }
  void Add(const Arguments& args) override {
    RoundAndAdd(args.dtype, args.x, args.sum, args.count);
  }
};

}  // namespace

std::unique_ptr<NodeSumOps> CreateNodeSumOps() {
  return std::make_unique<CpuNodeSumOps>();
}

}  // namespace tributary::cpu
