"""Writes optimizer_golden.h: what PyTorch's optimizers and schedules compute.

Run: python3 tests/common/optimizer/make_optimizer_golden.py \
    | clang-format >tests/common/optimizer/optimizer_golden.h
Needs PyTorch 1.13 or later.

The inputs of the optimizers are simple formulas that the test repeats: element i
of the first weights is ((i * 37) % 17 - 8) / 10, and of the gradient of step s
((i * 53 + s * 29) % 23 - 11) / 7. Even elements decay, odd ones do not. All
numbers are float64, except that the inputs are rounded to float32, as in the
test.
"""

import torch
from torch.optim import lr_scheduler

COUNT = 6
# The weights after these numbers of steps are written.
STEPS = [1, 2, 3, 4, 10, 30, 100]
RATES = 40


class Lion(torch.optim.Optimizer):
    """Lion, which PyTorch does not have, by the formula of Chen et al., 2023."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params,
                         dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p.sub_(group["lr"] * (update + group["weight_decay"] * p))
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


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
    ("kAdagrad", torch.optim.Adagrad,
     dict(lr=0.1, lr_decay=0.05, eps=1e-10, weight_decay=0.02)),
    ("kRmspropPlain", torch.optim.RMSprop,
     dict(lr=0.01, alpha=0.95, eps=1e-8, weight_decay=0.02)),
    ("kRmspropMomentum", torch.optim.RMSprop,
     dict(lr=0.01, alpha=0.99, eps=1e-6, momentum=0.8, weight_decay=0.02)),
    ("kAdadelta", torch.optim.Adadelta,
     dict(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.02)),
    ("kLion", Lion, dict(lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)),
]

# Learning rates of SGD with learning rate 0.3.
SCHEDULES = [
    ("kStepRates", lambda o: lr_scheduler.StepLR(o, step_size=7, gamma=0.3)),
    ("kExponentialRates",
     lambda o: lr_scheduler.ExponentialLR(o, gamma=0.9)),
    ("kPolynomialRates",
     lambda o: lr_scheduler.PolynomialLR(o, total_iters=30, power=1.7)),
    ("kOneCycleRates", lambda o: lr_scheduler.OneCycleLR(
        o, max_lr=0.3, total_steps=RATES, pct_start=0.37, div_factor=20,
        final_div_factor=5, cycle_momentum=False)),
]


def weights():
    return torch.tensor([((i * 37) % 17 - 8) / 10 for i in range(COUNT)],
                        dtype=torch.float32).double()


def gradient(step):
    return torch.tensor(
        [((i * 53 + step * 29) % 23 - 11) / 7 for i in range(COUNT)],
        dtype=torch.float32).double()


def run(rule, options):
    decaying = weights()[0::2].clone().requires_grad_()
    plain = weights()[1::2].clone().requires_grad_()
    optimizer = rule(
        [dict(params=[decaying]), dict(params=[plain], weight_decay=0.0)],
        **options)
    rows = []
    for step in range(max(STEPS)):
        decaying.grad = gradient(step)[0::2].clone()
        plain.grad = gradient(step)[1::2].clone()
        optimizer.step()
        both = torch.stack([decaying.detach(), plain.detach()], 1).flatten()
        if step + 1 in STEPS:
            rows.append(", ".join("%.12g" % x for x in both.tolist()))
    return rows


def rates(make):
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.3)
    schedule = make(optimizer)
    found = []
    for step in range(RATES):
        found.append("%.17g" % optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < RATES:
            schedule.step()
    return ", ".join(found)


def main():
    guard = "TRIBUTARY_TESTS_COMMON_OPTIMIZER_OPTIMIZER_GOLDEN_H_"
    print("// What PyTorch %s computes, written by make_optimizer_golden.py." %
          torch.__version__.split("+")[0])
    print("#ifndef %s\n#define %s\n" % (guard, guard))
    print("namespace tributary {\n")
    print("inline constexpr int kGoldenCount = %d;" % COUNT)
    print("inline constexpr int kGoldenRows = %d;" % len(STEPS))
    print("inline constexpr int kGoldenRates = %d;\n" % RATES)
    print("// The weights of kGoldenCount parameters after each of these numbers of")
    print("// steps, one array for each optimizer.")
    print("inline constexpr int kGoldenSteps[kGoldenRows] = {%s};\n" %
          ", ".join(map(str, STEPS)))
    for name, rule, options in RULES:
        print("inline constexpr double %s[kGoldenRows][kGoldenCount] = {" %
              name)
        for row in run(rule, options):
            print("    {%s}," % row)
        print("};\n")
    print("// The learning rates of kGoldenRates steps.")
    for name, make in SCHEDULES:
        print("inline constexpr double %s[kGoldenRates] = {%s};\n" %
              (name, rates(make)))
    print("}  // namespace tributary\n")
    print("#endif  // %s" % guard)


if __name__ == "__main__":
    main()
