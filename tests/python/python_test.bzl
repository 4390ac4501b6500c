"""Tests of the Python package."""

load("//third_party/bazel:cc.bzl", "cc_test")

def python_test(name, data = [], **kwargs):
    """Runs the tests of NAME.py, each as one case of GoogleTest.

    Args:
      name: name of the test, and of the file in this folder.
      data: files that the tests need besides the package and its native part.
      **kwargs: passed to cc_test.
    """
    cc_test(
        name = name,
        args = ["tests/python/%s.py" % name],
        data = data + [
            "support.py",
            name + ".py",
            "//library/c_api:libtributary_c.so",
            "//python:package",
            "//python:tributary_program",
        ],
        deps = [":run_python_tests"],
        **kwargs
    )
