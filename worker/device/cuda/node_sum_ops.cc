#include "common/cuda/node_format.h"
#include "common/cuda/node_sums.h"
#include "worker/device/cuda/cuda_ops.h"

namespace tributary::cuda {
namespace {

class CudaNodeSumOps final : public NodeSumOps {
 public:
  explicit CudaNodeSumOps(CudaContext* context) : context_(context) {}

  void Keep(const Arguments& args) override {
    RoundNode(context_->Current(), NodeFormatOf(args.dtype), args.count, args.x,
              args.sum);
  }
  void Add(const Arguments& args) override {
    AddNode(context_->Current(), NodeFormatOf(args.dtype), args.count, args.x,
            args.sum);
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<NodeSumOps> CreateNodeSumOps(CudaContext* context) {
  return std::make_unique<CudaNodeSumOps>(context);
}

}  // namespace tributary::cuda
