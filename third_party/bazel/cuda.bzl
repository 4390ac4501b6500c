"""CUDA code: `.cu` files through nvcc, and targets that need the toolkit."""

load("@local_cuda//:defs.bzl", "CUDA_PATH", "HAS_CUDA")

# Machine code for Hopper, and PTX that the driver compiles for newer GPUs.
_ARCHITECTURES = [
    "arch=compute_90,code=sm_90",
    "arch=compute_90,code=compute_90",
]

def if_cuda(with_cuda, without_cuda = []):
    """Returns the first list where the toolkit is installed, else the second.

    For what must build everywhere, and does more with CUDA (a factory).
    """
    return with_cuda if HAS_CUDA else without_cuda

def requires_cuda():
    """For `target_compatible_with` of a cc_library or cc_test: skips it where CUDA is absent."""
    return if_cuda([], ["//third_party/bazel:cuda_toolkit"])

def _common_arguments(ctx, contexts):
    """The arguments of every nvcc, but for the output and what it is for."""
    common = ctx.actions.args()
    common.add_all(["-O3", "-std=c++17", "-x", "cu"])

    # Device code may call constexpr functions of the standard library. Host
    # warnings are off: they come from code that nvcc generates.
    common.add_all(["--expt-relaxed-constexpr", "--extended-lambda"])
    common.add("-Xcompiler", "-fPIC,-ffp-contract=off,-w")
    for context in contexts:
        common.add_all(context.defines, before_each = "-D")
        common.add_all(context.quote_includes, before_each = "-I")
        common.add_all(context.includes, before_each = "-I")
        common.add_all(context.system_includes, before_each = "-isystem")
    common.add("-I", ".")
    return common

def _cuda_objects_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    headers = depset(ctx.files.hdrs, transitive = [c.headers for c in contexts])
    common = _common_arguments(ctx, contexts)
    common.add("-c")
    common.add_all(_ARCHITECTURES, before_each = "-gencode")
    common.add_all(ctx.attr.nvcc_options)

    # Two builds give the same bytes: nvcc and cudafe++ derive names from the
    # process's id, unless there is a seed, and from the path of the source, which
    # nvcc makes absolute; local symbols are the names of temporary files.
    command = r"""
        source=$1 object=$2; shift 2
        "$@" --frandom-seed="$source" -Xcudafe "--orig_src_path_name $source" \
            "$source" -o "$object" &&
        objcopy --strip-unneeded "$object"
    """
    objects = []
    for source in ctx.files.srcs:
        object = ctx.actions.declare_file(
            "_cuda/%s/%s.o" % (ctx.label.name, source.basename[:-len(".cu")]),
        )
        ctx.actions.run_shell(
            command = command,
            arguments = [source.path, object.path, CUDA_PATH + "/bin/nvcc", common],
            inputs = depset([source], transitive = [headers]),
            outputs = [object],
            mnemonic = "CudaCompile",
            progress_message = "Compiling " + source.short_path,
            use_default_shell_env = True,  # nvcc looks for gcc on the PATH.
        )
        objects.append(object)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "nvcc_options": attr.string_list(),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], nvcc_options = [], **kwargs):
    """A cc_library whose sources are `.cu` files.

    Skipped by wildcards, and an error to depend on, where the CUDA toolkit is
    absent. Links the CUDA runtime.

    Args:
      name: the library.
      srcs: `.cu` files only; host code goes to a cc_library of its own.
      hdrs: headers for those who depend on it; plain C++, not `.cu`.
      deps: C++ or CUDA libraries.
      nvcc_options: more options, for example `--use_fast_math`.
      **kwargs: passed to the cc_library (testonly, ...).
    """
    all_deps = deps + ["//third_party/system:cuda"]
    testonly = kwargs.get("testonly", False)
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        deps = all_deps,
        nvcc_options = nvcc_options,
        tags = ["manual"],
        target_compatible_with = requires_cuda(),
        testonly = testonly,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = [name + "_objects"],
        hdrs = hdrs,
        deps = all_deps,
        target_compatible_with = requires_cuda(),
        visibility = ["//visibility:public"],
        **kwargs
    )

def _cuda_machine_code_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    headers = depset(transitive = [c.headers for c in contexts])
    outputs = []
    for source in ctx.files.srcs:
        for architecture in ctx.attr.architectures:
            name = "%s.%s" % (source.basename[:-len(".cu")], architecture)
            code = ctx.actions.declare_file(name + ".cubin")
            log = ctx.actions.declare_file(name + ".log")
            ctx.actions.run_shell(
                command = "log=$1; shift; \"$@\" >\"$log\" 2>&1 || { cat \"$log\"; exit 1; }",
                arguments = [
                    log.path,
                    CUDA_PATH + "/bin/nvcc",
                    _common_arguments(ctx, contexts),
                    "-cubin",
                    "-arch=" + architecture,
                    "-Xptxas",
                    "-v,-warn-spills",
                    source.path,
                    "-o",
                    code.path,
                ],
                inputs = depset([source], transitive = [headers]),
                outputs = [code, log],
                mnemonic = "CudaMachineCode",
                progress_message = "Compiling %s for %s" % (source.short_path, architecture),
                use_default_shell_env = True,
            )
            outputs += [code, log]
    return [DefaultInfo(files = depset(outputs), runfiles = ctx.runfiles(outputs))]

# The machine code of kernels, for tests that look at it: for each source and
# architecture, NAME.ARCHITECTURE.cubin and ptxas's report in
# NAME.ARCHITECTURE.log.
cuda_machine_code = rule(
    implementation = _cuda_machine_code_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "architectures": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)
