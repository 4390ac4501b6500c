"""The library of a room: a source folder with one responsibility."""

load("//third_party/bazel:cc.bzl", "cc_library")

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
