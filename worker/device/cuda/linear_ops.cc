// Linear layers using cuBLASLt. Products are in float32 (with TF32 only for
// kTf32), or of bfloat16 with sums in float32. In bfloat16, a bias that a
// product's epilogue adds is rounded to bfloat16 first, because the library
// accepts no other type; MultiplyAndAdd adds it in float32.
//
// cuBLASLt's matrices are column-major, so a row-major [rows, columns] is its
// [columns, rows], and products are transposed:
//   Y = X W^T    as  Y^T[outputs, rows] = W X^T
//   dX = dY W    as  dX^T[inputs, rows] = W^T dY^T
//   dW = dY^T X  as  dW^T[inputs, outputs] = X^T dY
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/cublaslt_products.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/bias.h"
#include "worker/device/cuda/kernels/elementwise.h"

namespace tributary::cuda {
namespace {

class CublasLinearOps final : public LinearOps {
 public:
  CublasLinearOps(std::unique_ptr<CublasLtProducts> products,
                  Precision precision, CudaContext* context,
                  ElementwiseOps* elementwise)
      : context_(context),
        elementwise_(elementwise),
        products_(std::move(products)),
        type_(precision == Precision::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F),
        bias_(&context->Current(), context->growths_counter()),
        unrounded_(&context->Current(), context->growths_counter()) {}

  void Forward(const ForwardArguments& args) override {
    Stream& stream = context_->Current();
    const LinearShape& s = args.shape;
    Product product = ForwardProduct(s);
    if (args.bias == nullptr) {
      stream.Check(products_->Multiply(stream, product,
                                       {args.weight, args.x, args.y},
                                       /*accumulate=*/false));
      return;
    }
    product.epilogue = CUBLASLT_EPILOGUE_BIAS;
    if (CublasLtProducts::RoundsOnce(product) &&
        products_->MultiplyWithEpilogue(stream, product,
                                        {args.weight, args.x, args.y,
                                         BiasFor(stream, s.outputs, args.bias)},
                                        /*accumulate=*/false)) {
      return;
    }
    stream.Check(MultiplyAndAdd(stream, args));
  }

  // In bfloat16, with `accumulate`, the library rounds the product before it
  // adds, and the sum.
  void BackwardInput(const BackwardInputArguments& args) override {
    Stream& stream = context_->Current();
    stream.Check(products_->Multiply(stream, BackwardInputProduct(args.shape),
                                     {args.weight, args.dy, args.dx},
                                     args.accumulate));
  }

  // In bfloat16, where the library supports it, the product's epilogue sums the
  // columns. In float32 a kernel does: with TF32 the epilogue would sum rounded
  // numbers.
  void BackwardWeight(const BackwardWeightArguments& args) override {
    Stream& stream = context_->Current();
    const LinearShape& s = args.shape;
    Product product;
    product.factor_type = type_;
    product.m = s.inputs;
    product.n = s.outputs;
    product.k = s.rows;
    product.transpose_b = true;
    if (args.dbias != nullptr && type_ != CUDA_R_32F) {
      Product fused = product;
      fused.epilogue = CUBLASLT_EPILOGUE_BGRADB;
      if (products_->MultiplyWithEpilogue(
              stream, fused, {args.x, args.dy, args.dweight, args.dbias},
              args.accumulate)) {
        return;
      }
    }
    stream.Check(products_->Multiply(
        stream, product, {args.x, args.dy, args.dweight}, args.accumulate));
    if (args.dbias == nullptr) return;
    if (type_ == CUDA_R_32F) {
      ColumnSums(stream, context_->scratch(), s.rows, s.outputs,
                 As<float>(args.dy), args.dbias);
    } else {
      ColumnSums(stream, context_->scratch(), s.rows, s.outputs,
                 As<Bfloat16>(args.dy), args.dbias);
    }
  }

  // In bfloat16, where the library supports it, GELU is in the product's
  // epilogue, in float32 before rounding. Not in float32: the epilogue's tanh
  // is an approximation that suffices for bfloat16 only.
  void GeluForward(const GeluForwardArguments& args) override {
    Stream& stream = context_->Current();
    const LinearShape& s = args.shape;
    Product product = ForwardProduct(s);
    product.epilogue = args.bias == nullptr ? CUBLASLT_EPILOGUE_GELU_AUX
                                            : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    if (MayFuseGelu(product) &&
        products_->MultiplyWithEpilogue(
            stream, product,
            {args.weight, args.x, args.y, BiasFor(stream, s.outputs, args.bias),
             args.z},
            /*accumulate=*/false)) {
      return;
    }
    Forward({s, args.x, args.weight, args.bias, args.z});
    elementwise_->GeluForward({s.rows * s.outputs, args.z, args.y});
  }

  void GeluBackwardInput(const GeluBackwardInputArguments& args) override {
    Stream& stream = context_->Current();
    const LinearShape& s = args.shape;
    Product product = BackwardInputProduct(s);
    product.epilogue = CUBLASLT_EPILOGUE_DGELU;
    if (MayFuseGelu(product) &&
        products_->MultiplyWithEpilogue(
            stream, product,
            {args.weight, args.dy, args.dz, /*bias=*/nullptr, args.z},
            /*accumulate=*/false)) {
      return;
    }
    BackwardInput({s, args.dy, args.weight, /*accumulate=*/false, args.dz});
    elementwise_->GeluBackward({s.rows * s.inputs, args.z, args.dz, args.dz});
  }

 private:
  Product ForwardProduct(const LinearShape& s) const {
    Product product;
    product.m = s.outputs;
    product.n = s.rows;
    product.k = s.inputs;
    product.transpose_a = true;
    product.factor_type = product.result_type = type_;
    return product;
  }

  Product BackwardInputProduct(const LinearShape& s) const {
    Product product;
    product.m = s.inputs;
    product.n = s.rows;
    product.k = s.outputs;
    product.factor_type = product.result_type = type_;
    return product;
  }

  // Forward with a kernel that adds the bias to the product in float32.
  absl::Status MultiplyAndAdd(Stream& stream, const ForwardArguments& args) {
    const LinearShape& s = args.shape;
    Product product = ForwardProduct(s);
    product.result_type = CUDA_R_32F;
    const bool rounds = type_ != CUDA_R_32F;
    float* const sums =
        rounds ? static_cast<float*>(unrounded_.Bytes(
                     static_cast<size_t>(s.rows * s.outputs) * sizeof(float)))
               : As<float>(args.y);
    TRIBUTARY_RETURN_IF_ERROR(products_->Multiply(stream, product,
                                                  {args.weight, args.x, sums},
                                                  /*accumulate=*/false));
    if (rounds) {
      AddToRows(stream, s.rows, s.outputs, sums, args.bias,
                As<Bfloat16>(args.y));
    } else {
      AddToRows(stream, s.rows, s.outputs, sums, args.bias, sums);
    }
    return absl::OkStatus();
  }

  // Returns the bias in cuBLASLt's type. Null yields null.
  const void* BiasFor(Stream& stream, int64_t outputs, const float* bias) {
    if (bias == nullptr || type_ == CUDA_R_32F) return bias;
    auto* const rounded = static_cast<Bfloat16*>(
        bias_.Bytes(static_cast<size_t>(outputs) * sizeof(Bfloat16)));
    Convert(stream, outputs, bias, rounded);
    return rounded;
  }

  // Returns true if GELU may be in the product's epilogue.
  bool MayFuseGelu(const Product& product) const {
    return type_ != CUDA_R_32F && CublasLtProducts::RoundsOnce(product);
  }

  CudaContext* const context_;
  ElementwiseOps* const elementwise_;
  const std::unique_ptr<CublasLtProducts> products_;
  const cudaDataType_t type_;  // Type of Real.
  Scratch bias_;               // A bias in bfloat16.
  // A product to which a bias is still to be added, in float32. As large as the
  // layer's largest output of a shape for which RoundsOnce is false.
  Scratch unrounded_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinearOps>> CreateLinearOps(
    Precision precision, CudaContext* context, ElementwiseOps* elementwise) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<CublasLtProducts> products,
                             CublasLtProducts::Create(precision, context));
  return std::make_unique<CublasLinearOps>(std::move(products), precision,
                                           context, elementwise);
}

}  // namespace tributary::cuda
