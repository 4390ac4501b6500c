"""Kernels as sources for the CPU's compiler: Bazel compiles no .cu file as C++."""

# Lets a kernel call BeginShared behind the declaration of a shared variable.
_SHARED = r"s/^( *__shared__ .*[ >*])([A-Za-z_]+)((\[[^]]*\])*);$$/\1\2\3; " + \
          r"emulated_gpu::BeginShared(\&\2, sizeof(\2));/"

# A header with kernels, which becomes part of the sources that include it.
_HEADER = "//worker/device/cuda/kernels:column_sums.h"

def kernels_as_cc(kernels):
    """Copies each NAME.cu of the labels `kernels` to NAME.cc; returns the copies' names."""
    copies = []
    for kernel in kernels:
        name = kernel.split(":")[1][:-len(".cu")]
        native.genrule(
            name = name + "_as_cc",
            testonly = True,
            srcs = [kernel, _HEADER],
            outs = [name + ".cc"],
            cmd = ("sed -e '/#include \".*column_sums.h\"/{r $(location %s)' -e 'd}' $(location %s)" %
                   (_HEADER, kernel) + " | sed -E '%s' >$@" % _SHARED),
        )
        copies.append(name + ".cc")
    return copies
