"""What a program was built from, for programs that say so."""

load("@local_cuda//:defs.bzl", "CUDA_VERSION")
load("//:version.bzl", "VERSION")

def _build_info_impl(ctx):
    # Not stamping: that would link and test everything again after each commit.
    commit = ctx.var.get("commit", "unknown")
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(header, """\
#define TRIBUTARY_VERSION "%s"
#define TRIBUTARY_COMMIT "%s"
#define TRIBUTARY_CUDA_VERSION "%s"
""" % (VERSION, commit, CUDA_VERSION or "not built in"))
    return [DefaultInfo(files = depset([header]))]

# Writes NAME.h, which defines these macros. The commit is the value of
# --define=commit; without that, it is "unknown".
build_info = rule(implementation = _build_info_impl)
