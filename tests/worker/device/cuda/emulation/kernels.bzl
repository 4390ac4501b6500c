"""Kernels as sources for the CPU's compiler: Bazel compiles no .cu file as C++."""

def kernels_as_cc(kernels):
    """Copies each NAME.cu of the labels `kernels` to NAME.cc; returns the copies' names."""
    copies = []
    for kernel in kernels:
        name = kernel.split(":")[1][:-len(".cu")]
        native.genrule(
            name = name + "_as_cc",
            testonly = True,
            srcs = [kernel],
            outs = [name + ".cc"],
            cmd = "cp $< $@",
        )
        copies.append(name + ".cc")
    return copies
