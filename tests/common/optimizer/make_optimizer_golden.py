"""Writes optimizer_golden.h: what PyTorch's optimizers make of fixed inputs.

Run: python3 tests/common/optimizer/make_optimizer_golden.py >tests/common/optimizer/optimizer_golden.h
Needs PyTorch (the committed file: 2.13, on a CPU).

The inputs are simple formulas that the test repeats: element i of the first
weights is ((i * 37) % 17 - 8) / 10, and of the gradient of step s
((i * 53 + s * 29) % 23 - 11) / 7. Even elements decay, odd ones do not.
"""

import torch

COUNT = 6
STEPS = 4
RULES = [
    ("kSgdPlain", torch.optim.SGD, dict(lr=0.1, weight_decay=0.02)),
    ("kSgdMomentum", torch.optim.SGD,
     dict(lr=0.1, momentum=0.9, weight_decay=0.02)),
    ("kSgdNesterov", torch.optim.SGD,
     dict(lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.02)),
    ("kAdam", torch.optim.Adam,
     dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.03)),
    ("kAdamW", torch.optim.AdamW,
     dict(lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)),
]


def weights():
    return torch.tensor([((i * 37) % 17 - 8) / 10 for i in range(COUNT)])


def gradient(step):
    return torch.tensor(
        [((i * 53 + step * 29) % 23 - 11) / 7 for i in range(COUNT)])


def run(rule, options):
    decaying = weights()[0::2].clone().requires_grad_()
    plain = weights()[1::2].clone().requires_grad_()
    optimizer = rule(
        [dict(params=[decaying]), dict(params=[plain], weight_decay=0.0)],
        foreach=False, **options)
    rows = []
    for step in range(STEPS):
        decaying.grad = gradient(step)[0::2].clone()
        plain.grad = gradient(step)[1::2].clone()
        optimizer.step()
        both = torch.stack([decaying.detach(), plain.detach()], 1).flatten()
        rows.append(", ".join("%.9gf" % x for x in both.tolist()))
    return rows


def main():
    print("// Made by make_optimizer_golden.py with PyTorch %s." %
          torch.__version__.split("+")[0])
    print("#ifndef TRIBUTARY_TESTS_COMMON_OPTIMIZER_GOLDEN_H_")
    print("#define TRIBUTARY_TESTS_COMMON_OPTIMIZER_GOLDEN_H_\n")
    print("namespace tributary {\n")
    print("inline constexpr int kGoldenCount = %d;" % COUNT)
    print("inline constexpr int kGoldenSteps = %d;\n" % STEPS)
    print("// Weights after each step.")
    for name, rule, options in RULES:
        print("inline constexpr float %s[kGoldenSteps][kGoldenCount] = {" %
              name)
        for row in run(rule, options):
            # Integers need a point before the f.
            row = ", ".join(x if "." in x or "e" in x else x[:-1] + ".0f"
                            for x in row.split(", "))
            print("    {%s}," % row)
        print("};\n")
    print("}  // namespace tributary\n")
    print("#endif  // TRIBUTARY_TESTS_COMMON_OPTIMIZER_GOLDEN_H_")


if __name__ == "__main__":
    main()
