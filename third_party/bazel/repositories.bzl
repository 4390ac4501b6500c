"""The external repositories of the build: none is downloaded."""

load("//third_party/bazel:cuda_repository.bzl", "cuda_repository")

# Bazel's own workspace names repositories on the network that its C++ rules
# need. Debian's Bazel 4 carries some of them; the others stand here. Newer
# Bazels bring or fetch theirs.
_STAND_INS = ["remote_coverage_tools", "rules_cc", "rules_java"]

def _stand_in_impl(ctx):
    # A local_repository would be looked for in the workspace that uses this one.
    here = ctx.path(Label("//third_party/bazel:repositories.bzl")).dirname
    for child in here.get_child(ctx.name).readdir():
        ctx.symlink(child, child.basename)

_stand_in = repository_rule(
    implementation = _stand_in_impl,
    local = True,
)

def tributary_repositories():
    # Debian's Bazel 4 was built without its version number.
    if not native.bazel_version or native.bazel_version.startswith("4."):
        for name in _STAND_INS:
            _stand_in(name = name)
        native.local_repository(
            name = "platforms",
            path = "/usr/share/bazel/platforms",
        )
    cuda_repository(name = "local_cuda")
