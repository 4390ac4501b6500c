"""Compiler options of numerical code."""

# Loops are unrolled and vectorized for each instruction set. The compiler may
# evaluate both sides of a condition, and a square root need not set errno:
# floating-point exceptions and errno are never read.
LOOP_COPTS = [
    "-O3",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-Wno-psabi",
]

# Loops whose results must be the same bits on every processor.
KERNEL_COPTS = LOOP_COPTS + ["-ffp-contract=off"]

# Our own matrix products use fused multiply-adds where there are any, as the
# libraries do: twice the speed, and bits that depend on the processor.
PRODUCT_COPTS = LOOP_COPTS + ["-ffp-contract=fast"]
