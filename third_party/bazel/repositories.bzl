"""The external repositories of the build: none is downloaded."""

load("//third_party/bazel:cuda_repository.bzl", "cuda_repository")

# Bazel's own workspace names repositories on the network that its C++ rules
# need. Debian's Bazel 4 carries some of them; the others stand here. Newer
# Bazels bring or fetch theirs.
_STAND_INS = ["remote_coverage_tools", "rules_cc", "rules_java"]

def tributary_repositories():
    # Debian's Bazel 4 was built without its version number.
    if not native.bazel_version or native.bazel_version.startswith("4."):
        for name in _STAND_INS:
            native.local_repository(
                name = name,
                path = "third_party/bazel/" + name,
            )
        native.local_repository(
            name = "platforms",
            path = "/usr/share/bazel/platforms",
        )
    cuda_repository(name = "local_cuda")
