"""Writes plateau_golden.h: what PyTorch's ReduceLROnPlateau computes.

Run: python3 tests/server/progress/make_plateau_golden.py \
    | clang-format >tests/server/progress/plateau_golden.h
Needs PyTorch 1.13 or later.

Result i of the evaluations is (3 + ((i * 37) % 11) / 10) / (1 + i / 8) if i < 20,
and the result 20 evaluations before it otherwise; every seventh is NaN. With
mode 'max', it is 1 minus a tenth of this.
"""

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

COUNT = 60
CASES = [
    ("kPlateauLoss", dict(mode="min", factor=0.5, patience=2, threshold=0.01,
                          cooldown=0, min_lr=0.0)),
    ("kPlateauCooldown", dict(mode="min", factor=0.3, patience=0, threshold=1e-4,
                              cooldown=3, min_lr=0.001)),
    ("kPlateauAccuracy", dict(mode="max", factor=0.1, patience=3, threshold=0.05,
                              cooldown=1, min_lr=0.0)),
]


def result(i):
    i = i % 20
    return float("nan") if i % 7 == 6 else (3 + ((i * 37) % 11) / 10) / (1 + i / 8)


def rates(options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    schedule = ReduceLROnPlateau(optimizer, eps=0, threshold_mode="rel", **options)
    found = []
    for i in range(COUNT):
        value = result(i)
        schedule.step(1 - value / 10 if options["mode"] == "max" else value)
        found.append("%.17g" % optimizer.param_groups[0]["lr"])
    return ", ".join(found)


def main():
    guard = "TRIBUTARY_TESTS_SERVER_PROGRESS_PLATEAU_GOLDEN_H_"
    print("// What PyTorch %s computes, written by make_plateau_golden.py." %
          torch.__version__.split("+")[0])
    print("#ifndef %s\n#define %s\n" % (guard, guard))
    print("namespace tributary {\n")
    print("inline constexpr int kPlateauCount = %d;\n" % COUNT)
    print("// The learning rates after each evaluation.")
    for name, options in CASES:
        print("inline constexpr double %s[kPlateauCount] = {%s};\n" %
              (name, rates(options)))
    print("}  // namespace tributary\n")
    print("#endif  // %s" % guard)


if __name__ == "__main__":
    main()
