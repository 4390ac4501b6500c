"""Writes lamb_golden.h: what the Lamb of timm computes.

Run: python3 tests/common/update/make_lamb_golden.py \
    | clang-format >tests/common/update/lamb_golden.h
Needs PyTorch, and timm 1.0.31 or later from PyPI.

The inputs are simple formulas that the test repeats: element i of the first
weights, counted over all parameters, is ((i * 37) % 17 - 8) / 10, and of the
gradient of step s ((i * 53 + s * 29) % 23 - 11) / 7. All weights of the last
parameter are 0, so that its trust ratio is 1 in the first step. All numbers are
float64, except that the inputs are rounded to float32, as in the test.
"""

import timm
import torch
from timm.optim import Lamb

# Numbers of elements, and whether weight decay applies.
PARAMETERS = [(40, True), (5, False), (70, True), (16, True)]
# The weights after these numbers of steps are written.
STEPS = [1, 2, 10, 100]


def split(values):
    return torch.split(values.float().double(), [size for size, _ in PARAMETERS])


def main():
    count = sum(size for size, _ in PARAMETERS)
    i = torch.arange(count)
    weights = [w.clone() for w in split(((i * 37) % 17 - 8) / 10)]
    weights[-1].zero_()
    for weight in weights:
        weight.requires_grad_()
    optimizer = Lamb(
        [dict(params=[w for w, (_, decays) in zip(weights, PARAMETERS) if decays],
              weight_decay=0.1, always_adapt=True),
         dict(params=[w for w, (_, decays) in zip(weights, PARAMETERS) if not decays],
              weight_decay=0.0)],
        lr=0.01, betas=(0.9, 0.99), eps=1e-6, max_grad_norm=None)
    rows = []
    for step in range(max(STEPS)):
        for weight, g in zip(weights, split(((i * 53 + step * 29) % 23 - 11) / 7)):
            weight.grad = g.clone()
        optimizer.step()
        if step + 1 in STEPS:
            rows.append(torch.cat([w.detach() for w in weights]).tolist())
    guard = "TRIBUTARY_TESTS_COMMON_UPDATE_LAMB_GOLDEN_H_"
    print("// What the Lamb of timm %s computes, written by make_lamb_golden.py." %
          timm.__version__)
    print("#ifndef %s\n#define %s\n" % (guard, guard))
    print("namespace tributary {\n")
    print("inline constexpr int kLambCount = %d;" % count)
    print("inline constexpr int kLambRows = %d;\n" % len(STEPS))
    print("// The weights of all parameters after each of these numbers of steps.")
    print("inline constexpr int kLambSteps[kLambRows] = {%s};" %
          ", ".join(map(str, STEPS)))
    print("inline constexpr double kLamb[kLambRows][kLambCount] = {")
    for row in rows:
        print("    {%s}," % ", ".join("%.12g" % x for x in row))
    print("};\n")
    print("}  // namespace tributary\n")
    print("#endif  // %s" % guard)


if __name__ == "__main__":
    main()
