"""Finds the CUDA toolkit at load time."""

_CUDA_PATH = "/usr/local/cuda"

_BUILD_WITH_CUDA = """
package(default_visibility = ["//visibility:public"])

# The headers of the toolkit's top level: what host code includes. nvcc finds
# the others (CCCL) by itself.
cc_library(
    name = "headers",
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/*", "include/nccl_device/*"]),
    includes = ["include"],
)
"""

_BUILD_WITHOUT_CUDA = """
package(default_visibility = ["//visibility:public"])

cc_library(name = "headers")
"""

def _cuda_repository_impl(ctx):
    cuda = ctx.path(_CUDA_PATH)
    found = cuda.get_child("bin").get_child("nvcc").exists
    if found:
        ctx.symlink(cuda.get_child("include"), "include")
    version = ""
    if found:
        header = ctx.read(cuda.get_child("include").get_child("cuda_runtime_api.h"))
        number = int(header.partition("#define CUDART_VERSION ")[2].split("\n")[0].strip())
        version = "%d.%d" % (number // 1000, number % 1000 // 10)
    ctx.file("BUILD", _BUILD_WITH_CUDA if found else _BUILD_WITHOUT_CUDA)
    ctx.file(
        "defs.bzl",
        "HAS_CUDA = %s\nCUDA_PATH = %r\nCUDA_VERSION = %r\n" % (found, _CUDA_PATH, version),
    )

# Looks again whenever the Bazel server starts: after installing or removing
# CUDA, run `bazel shutdown`.
cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    local = True,
)
