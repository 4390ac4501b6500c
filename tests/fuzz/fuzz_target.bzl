"""Fuzz targets, which are tests too."""

def fuzz_target(name, deps):
    """A fuzz target from NAME_fuzz.cc with the seeds in corpus/NAME.

    Makes NAME_fuzz_test, which runs the seeds and mutations of them with any
    compiler, and NAME_fuzz, libFuzzer's program, for --config=fuzz only.

    Args:
      name: of the format that is read.
      deps: of the source file.
    """
    corpus = native.glob(["corpus/" + name + "/**"])
    native.cc_library(
        name = name + "_fuzz_target",
        testonly = True,
        srcs = [name + "_fuzz.cc", "fuzz_target.h"],
        deps = deps,
    )
    native.cc_test(
        name = name + "_fuzz_test",
        size = "small",
        srcs = ["replay_main.cc", "fuzz_target.h"],
        args = [native.package_name() + "/corpus/" + name],
        data = corpus,
        deps = [
            ":" + name + "_fuzz_target",
            "//common/os",
        ],
    )
    native.cc_binary(
        name = name + "_fuzz",
        testonly = True,
        # Not the library: the fuzzer's main, linked last, would come too late
        # to take anything out of it.
        srcs = [name + "_fuzz.cc", "fuzz_target.h"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
