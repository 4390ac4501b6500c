"""Fuzz targets, which are tests too."""

load("//third_party/bazel:cc.bzl", "cc_test")

def fuzz_target(name, deps):
    """A fuzz target from NAME_fuzz.cc with the seeds in corpus/NAME.

    Makes NAME_fuzz_test, which runs the seeds and mutations of them with any
    compiler, and NAME_fuzz, libFuzzer's program, for --config=fuzz only.

    Args:
      name: of the format that is read.
      deps: of the source file.
    """
    sources = [name + "_fuzz.cc", "fuzz_target.h"]
    cc_test(
        name = name + "_fuzz_test",
        srcs = sources + ["replay_main.cc"],
        args = [native.package_name() + "/corpus/" + name],
        data = native.glob(["corpus/" + name + "/**"]),
        deps = deps,
    )
    native.cc_binary(
        name = name + "_fuzz",
        testonly = True,
        srcs = sources,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
