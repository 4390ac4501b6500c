#include "worker/device/cpu/products/matmul_runner.h"

#include <cstddef>
#include <tuple>
#include <unordered_map>

#include "oneapi/dnnl/dnnl.hpp"
#include "worker/device/cpu/products/one_thread.h"

namespace tributary::cpu {
namespace {

using dnnl::memory;

// Models have three products per linear layer; evaluation adds some. If there
// are more, all plans are discarded and made again, which takes milliseconds.
constexpr size_t kMaximumPlans = 512;

// Describes a row-major matrix [rows, columns], or its transpose.
memory::desc Matrix(int64_t rows, int64_t columns, memory::data_type type,
                    bool transposed) {
  const memory::dims strides =
      transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
  return {{rows, columns}, type, strides};
}

// Primitives take non-const pointers even to memory that they only read.
void* Writable(const void* memory) { return const_cast<void*>(memory); }

}  // namespace

bool MultipliesBfloat16() {
  // The value of each instruction set contains the bits of those it includes.
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & needed) == needed;
}

class MatmulPlan {
 public:
  MatmulPlan(const MatmulRunner::Product& p, Precision precision) {
    const auto real = precision == Precision::kFloat32
                          ? memory::data_type::f32
                          : memory::data_type::bf16;
    a_ = Matrix(p.m, p.k, real, p.transposed_a);
    b_ = Matrix(p.k, p.n, real, p.transposed_b);
    bias_ = Matrix(1, p.n, memory::data_type::f32, /*transposed=*/false);
    c_ = Matrix(p.m, p.n, p.float32_result ? memory::data_type::f32 : real,
                /*transposed=*/false);
    dnnl::primitive_attr attributes;
    // The library's own scratchpads belong to the thread that created the
    // primitive.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (p.accumulate) {
      dnnl::post_ops add;
      add.append_sum(1.0f);
      attributes.set_post_ops(add);
    }
    const dnnl::matmul::desc description =
        p.has_bias ? dnnl::matmul::desc(a_, b_, bias_, c_)
                   : dnnl::matmul::desc(a_, b_, c_);
    const dnnl::matmul::primitive_desc chosen(description, attributes, engine_);
    primitive_ = dnnl::matmul(chosen);
    scratchpad_ = memory(chosen.scratchpad_desc(), engine_);
  }

  void Execute(const MatmulRunner::Matrices& matrices) {
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, memory(a_, engine_, Writable(matrices.a))},
        {DNNL_ARG_WEIGHTS, memory(b_, engine_, Writable(matrices.b))},
        {DNNL_ARG_DST, memory(c_, engine_, matrices.c)},
        {DNNL_ARG_SCRATCHPAD, scratchpad_}};
    if (matrices.bias != nullptr) {
      arguments.emplace(DNNL_ARG_BIAS,
                        memory(bias_, engine_, Writable(matrices.bias)));
    }
    primitive_.execute(stream_, arguments);
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  memory::desc a_, b_, bias_, c_;
  dnnl::matmul primitive_;
  memory scratchpad_;
};

bool MatmulRunner::Product::operator<(const Product& other) const {
  const auto key = [](const Product& p) {
    return std::tie(p.m, p.n, p.k, p.transposed_a, p.transposed_b, p.has_bias,
                    p.accumulate, p.float32_result);
  };
  return key(*this) < key(other);
}

MatmulRunner::MatmulRunner(Precision precision) : precision_(precision) {}
MatmulRunner::~MatmulRunner() = default;

void MatmulRunner::Multiply(const Product& product, const Matrices& matrices) {
  const OneThread one_thread;
  auto found = plans_.find(product);
  if (found == plans_.end()) {
    if (plans_.size() >= kMaximumPlans) plans_.clear();
    found =
        plans_
            .emplace(product, std::make_unique<MatmulPlan>(product, precision_))
            .first;
  }
  found->second->Execute(matrices);
}

void MatmulRunner::Forward(const LinearShape& s, const void* x,
                           const void* weight, const float* bias, void* y) {
  Product product;
  product.m = s.rows;
  product.n = s.outputs;
  product.k = s.inputs;
  product.transposed_b = true;
  product.has_bias = bias != nullptr;
  Multiply(product, {x, weight, bias, y});
}

void MatmulRunner::BackwardInput(const LinearShape& s, const void* dy,
                                 const void* weight, bool accumulate,
                                 void* dx) {
  Product product;
  product.m = s.rows;
  product.n = s.inputs;
  product.k = s.outputs;
  product.accumulate = accumulate;
  Multiply(product, {dy, weight, /*bias=*/nullptr, dx});
}

void MatmulRunner::BackwardWeight(const LinearShape& s, const void* x,
                                  const void* dy, bool accumulate,
                                  float* dweight) {
  Product product;
  product.m = s.outputs;
  product.n = s.inputs;
  product.k = s.rows;
  product.transposed_a = true;
  product.accumulate = accumulate;
  product.float32_result = true;
  Multiply(product, {dy, x, /*bias=*/nullptr, dweight});
}

}  // namespace tributary::cpu
