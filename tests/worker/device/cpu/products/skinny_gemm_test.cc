#include "worker/device/cpu/products/skinny_gemm.h"

#include "gtest/gtest.h"
#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"
#include "worker/device/cpu/products/bfloat16.h"

namespace tributary::cpu {
namespace {

using reference::Absolute;

// The device takes these functions only for weights too large for a test; here
// are all the remainders: of outputs by 8 and 16, of inputs by 16, 32 and
// 1,024.
std::vector<LinearShape> Shapes() {
  std::vector<LinearShape> shapes;
  for (int64_t rows : {1, 3, 8, 13, 16}) {
    for (int64_t inputs : {1, 16, 31, 65}) {
      for (int64_t outputs : {1, 8, 19, 65}) {
        shapes.push_back({rows, inputs, outputs});
      }
    }
  }
  shapes.push_back({16, 1100, 33});
  shapes.push_back({9, 2065, 17});
  return shapes;
}

Doubles SkinnyGemmElementSums(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// Each product and each sum may round.
double Tolerance(int64_t terms) {
  return static_cast<double>(terms + 2) * kEpsilon;
}

TEST(SkinnyGemmTest, ForwardMatchesReference) {
  for (const LinearShape& s : Shapes()) {
    const Floats x = RandomFloats(s.rows * s.inputs, 1);
    const Floats w = RandomFloats(s.inputs * s.outputs, 2);
    const Floats before = RandomFloats(s.rows * s.outputs, 3);
    const Doubles expected =
        reference::LinearForward(s, ToDoubles(x), ToDoubles(w), {});
    const Doubles magnitude = reference::LinearForward(
        s, Absolute(ToDoubles(x)), Absolute(ToDoubles(w)), {});
    Floats packed(s.inputs * kSkinnyRows), y(before.size()), sum = before;
    SkinnyForward(s.rows, s.inputs, s.outputs, x.data(), w.data(),
                  /*accumulate=*/false, y.data(), packed.data());
    ExpectNear(y, expected, Tolerance(s.inputs), magnitude);
    SkinnyForward(s.rows, s.inputs, s.outputs, x.data(), w.data(),
                  /*accumulate=*/true, sum.data(), packed.data());
    ExpectNear(sum, SkinnyGemmElementSums(ToDoubles(before), expected),
               Tolerance(s.inputs),
               SkinnyGemmElementSums(Absolute(ToDoubles(before)), magnitude));
  }
}

TEST(SkinnyGemmTest, BackwardInputMatchesReference) {
  for (const LinearShape& s : Shapes()) {
    const Floats dy = RandomFloats(s.rows * s.outputs, 1);
    const Floats w = RandomFloats(s.inputs * s.outputs, 2);
    const Floats before = RandomFloats(s.rows * s.inputs, 3);
    const Doubles expected =
        reference::LinearBackwardInput(s, ToDoubles(dy), ToDoubles(w));
    const Doubles magnitude = reference::LinearBackwardInput(
        s, Absolute(ToDoubles(dy)), Absolute(ToDoubles(w)));
    Floats dx(before.size()), sum = before;
    SkinnyBackwardInput(s.rows, s.inputs, s.outputs, dy.data(), w.data(),
                        /*accumulate=*/false, dx.data());
    ExpectNear(dx, expected, Tolerance(s.outputs), magnitude);
    SkinnyBackwardInput(s.rows, s.inputs, s.outputs, dy.data(), w.data(),
                        /*accumulate=*/true, sum.data());
    ExpectNear(sum, SkinnyGemmElementSums(ToDoubles(before), expected),
               Tolerance(s.outputs),
               SkinnyGemmElementSums(Absolute(ToDoubles(before)), magnitude));
  }
}

// Widening is exact, so bits are those of the same numbers in float32.
TEST(SkinnyGemmTest, TakesMatricesOfBfloat16) {
  for (const LinearShape& s : Shapes()) {
    const Floats x = RandomFloats(s.rows * s.inputs, 1);
    const Floats dy = RandomFloats(s.rows * s.outputs, 2);
    Floats w = RandomFloats(s.inputs * s.outputs, 3);
    std::vector<Bfloat16> narrow(w.size());
    Narrow(w.size(), w.data(), narrow.data());
    Widen(w.size(), narrow.data(), w.data());
    Floats packed(s.inputs * kSkinnyRows), y(dy.size()), expected(dy.size());
    SkinnyForward(s.rows, s.inputs, s.outputs, x.data(), narrow.data(),
                  /*accumulate=*/false, y.data(), packed.data());
    SkinnyForward(s.rows, s.inputs, s.outputs, x.data(), w.data(),
                  /*accumulate=*/false, expected.data(), packed.data());
    EXPECT_EQ(y, expected);
    Floats dx = x, expected_dx = x;
    SkinnyBackwardInput(s.rows, s.inputs, s.outputs, dy.data(), narrow.data(),
                        /*accumulate=*/true, dx.data());
    SkinnyBackwardInput(s.rows, s.inputs, s.outputs, dy.data(), w.data(),
                        /*accumulate=*/true, expected_dx.data());
    EXPECT_EQ(dx, expected_dx);
  }
}

}  // namespace
}  // namespace tributary::cpu
