// The same products in both precisions; bfloat16 where the processor allows.
#include "worker/device/cpu/products/matmul_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/device/device_conformance.h"
#include "tests/worker/device/reference.h"
#include "worker/device/cpu/products/bfloat16.h"

namespace tributary::cpu {
namespace {

const LinearShape kShapes[] = {
    {1, 1, 1},      {3, 17, 5},   {17, 3, 65},    {65, 130, 33},
    {16, 515, 530}, {7, 768, 30}, {128, 64, 256},
};

class MatmulTest : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (!IsFloat32() && !MultipliesBfloat16()) {
      GTEST_SKIP() << "this processor has neither AVX512_BF16 nor AMX";
    }
  }

  static bool IsFloat32() { return GetParam() == Precision::kFloat32; }

  // Numbers as the runner reads them, and back.
  using Bytes = std::vector<char>;
  static Bytes Encode(const Floats& values) {
    Bytes bytes(values.size() * (IsFloat32() ? 4 : 2));
    if (IsFloat32()) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    } else {
      Narrow(values.size(), values.data(),
             reinterpret_cast<Bfloat16*>(bytes.data()));
    }
    return bytes;
  }
  static Floats Decode(const Bytes& bytes) {
    Floats values(bytes.size() / (IsFloat32() ? 4 : 2));
    if (IsFloat32()) {
      std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      Widen(values.size(), reinterpret_cast<const Bfloat16*>(bytes.data()),
            values.data());
    }
    return values;
  }
  static Floats Random(int64_t count, uint32_t seed) {
    return Decode(Encode(RandomFloats(count, seed)));
  }

  // A sum of n products, added to another number, and rounded.
  static void ExpectSums(const Floats& actual, const Doubles& expected,
                         const Doubles& magnitudes, int64_t n,
                         double result_epsilon) {
    Doubles limits;
    for (size_t i = 0; i < expected.size(); ++i) {
      limits.push_back(static_cast<double>(n + 2) * kEpsilon * magnitudes[i] +
                       result_epsilon * std::abs(expected[i]) * 1.01);
    }
    ExpectNear(actual, expected, /*tolerance=*/1, limits);
  }
  static double ResultEpsilon() { return IsFloat32() ? 0 : kBfloat16Epsilon; }

  MatmulRunner runner_{GetParam()};
};

Doubles ElementSums(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

using reference::Absolute;

TEST_P(MatmulTest, ForwardIsProductPlusBias) {
  for (const LinearShape& s : kShapes) {
    const Floats x = Random(s.rows * s.inputs, 1),
                 weight = Random(s.outputs * s.inputs, 2),
                 bias = RandomFloats(s.outputs, 3);
    const Doubles xd = ToDoubles(x), wd = ToDoubles(weight);
    for (const bool has_bias : {false, true}) {
      const Doubles bd = has_bias ? ToDoubles(bias) : Doubles();
      Bytes y = Encode(Floats(s.rows * s.outputs, NAN));
      runner_.Forward(s, Encode(x).data(), Encode(weight).data(),
                      has_bias ? bias.data() : nullptr, y.data());
      ExpectSums(
          Decode(y), reference::LinearForward(s, xd, wd, bd),
          reference::LinearForward(s, Absolute(xd), Absolute(wd), Absolute(bd)),
          s.inputs, ResultEpsilon());
    }
  }
}

TEST_P(MatmulTest, BackwardInputSetsOrAdds) {
  for (const LinearShape& s : kShapes) {
    const Floats dy = Random(s.rows * s.outputs, 1),
                 weight = Random(s.outputs * s.inputs, 2),
                 before = Random(s.rows * s.inputs, 3);
    const Doubles dyd = ToDoubles(dy), wd = ToDoubles(weight),
                  bd = ToDoubles(before);
    const Doubles product = reference::LinearBackwardInput(s, dyd, wd);
    const Doubles magnitude = ElementSums(
        Absolute(bd),
        reference::LinearBackwardInput(s, Absolute(dyd), Absolute(wd)));
    Bytes dx = Encode(Floats(before.size(), NAN)), sum = Encode(before);
    runner_.BackwardInput(s, Encode(dy).data(), Encode(weight).data(),
                          /*accumulate=*/false, dx.data());
    runner_.BackwardInput(s, Encode(dy).data(), Encode(weight).data(),
                          /*accumulate=*/true, sum.data());
    ExpectSums(Decode(dx), product, magnitude, s.outputs, ResultEpsilon());
    ExpectSums(Decode(sum), ElementSums(bd, product), magnitude, s.outputs,
               ResultEpsilon());
  }
}

TEST_P(MatmulTest, BackwardWeightSetsOrAddsInFloat32) {
  for (const LinearShape& s : kShapes) {
    const Floats x = Random(s.rows * s.inputs, 1),
                 dy = Random(s.rows * s.outputs, 2),
                 before = RandomFloats(s.outputs * s.inputs, 3);
    const Doubles xd = ToDoubles(x), dyd = ToDoubles(dy),
                  bd = ToDoubles(before);
    const Doubles product = reference::LinearBackwardWeight(s, xd, dyd);
    const Doubles magnitude = ElementSums(
        Absolute(bd),
        reference::LinearBackwardWeight(s, Absolute(xd), Absolute(dyd)));
    Floats dweight(before.size(), NAN), sum = before;
    runner_.BackwardWeight(s, Encode(x).data(), Encode(dy).data(),
                           /*accumulate=*/false, dweight.data());
    runner_.BackwardWeight(s, Encode(x).data(), Encode(dy).data(),
                           /*accumulate=*/true, sum.data());
    ExpectSums(dweight, product, magnitude, s.rows, /*result_epsilon=*/0);
    ExpectSums(sum, ElementSums(bd, product), magnitude, s.rows, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, MatmulTest,
                         testing::Values(Precision::kFloat32,
                                         Precision::kBfloat16),
                         [](const auto& info) {
                           return info.param == Precision::kFloat32
                                      ? "Float32"
                                      : "Bfloat16";
                         });

}  // namespace
}  // namespace tributary::cpu
