"""The library and the tests of a room: a source folder with one responsibility."""

load("//third_party/bazel:cc.bzl", "cc_library", "cc_test")

def room(name = None, exclude = [], **kwargs):
    """A cc_library of all .cc and .h files of its folder.

    Args:
      name: the library; default: the name of the folder.
      exclude: files that belong to other targets.
      **kwargs: passed to cc_library.
    """
    cc_library(
        name = name or native.package_name().split("/")[-1],
        srcs = native.glob(["*.cc"], exclude = exclude),
        hdrs = native.glob(["*.h"], exclude = exclude),
        **kwargs
    )

def room_test(name = None, room = None, deps = [], alone = {}, exclude = [], **kwargs):
    """The tests of a folder below `tests`.

    One program runs all tests (*_test.cc) of the folder, except for those in
    `alone`. The other files are a library, `:helpers`. Tests and helpers depend
    on the room that they test and on //tests/support.

    `tags = ["slow"]` leaves a test out of `./tributary test` without `--all`.

    Args:
      name: the test; default: the name of the folder, and `_test`.
      room: the library that is tested; default: that of the folder that the
        test's folder mirrors. Empty if there is none.
      deps: what tests and helpers need besides.
      alone: tests in programs of their own, each with arguments of cc_test:
        those that need other libraries, change their process, take long, or are
        left out of the quick tests.
      exclude: files that belong to other targets.
      **kwargs: passed to the cc_test of the shared program.
    """
    package = native.package_name()
    if room == None:
        room = "//" + package[len("tests/"):]
    deps = [dep for dep in [room] if dep] + deps + [
        "//tests/support",
        "//third_party/system:gtest_main",
    ]
    helpers = ["*.cc", "*.h", "*.inc"]
    if native.glob(helpers, exclude = exclude + ["*_test.cc"]):
        cc_library(
            name = "helpers",
            testonly = True,
            srcs = native.glob(["*.cc"], exclude = exclude + ["*_test.cc"]),
            hdrs = native.glob(["*.h", "*.inc"], exclude = exclude),
            deps = deps,
        )
        deps = deps + [":helpers"]
    shared = native.glob(["*_test.cc"], exclude = exclude + [test + ".cc" for test in alone])
    if shared:
        cc_test(
            name = name or package.split("/")[-1] + "_test",
            srcs = shared,
            deps = deps,
            **kwargs
        )
    for test, arguments in alone.items():
        arguments = dict({"srcs": [test + ".cc"]}, **arguments)

        # A test's own libraries come first: they may replace others.
        own = arguments.pop("deps", [])
        cc_test(name = test, deps = own + [dep for dep in deps if dep not in own], **arguments)
