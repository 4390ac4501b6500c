"""C++ from .proto files, with the system's protoc and gRPC plugin."""

# The headers are marked as system headers: generated code is not held to our
# warnings, wherever it is included. The mark follows the include guard, because
# compilers read a file again for each #include of it if anything precedes the
# guard.
_GENERATE = """
set -eu
/usr/bin/protoc -I{root} --cpp_out={out} {grpc} $(SRCS)
for header in $(OUTS); do
  case $$header in
    *.h) sed -i '0,/^#define .*/s//&\\n#pragma GCC system_header/' $$header ;;
  esac
done
"""
_GRPC = "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out={out}"

def _protos_of(dep):
    """The label of the .proto files of the cc_proto `dep`."""
    if ":" not in dep:
        dep = dep + ":" + dep.split("/")[-1]
    return dep + "_protos"

def cc_proto(name, srcs, deps = [], grpc = False, visibility = None, testonly = False):
    """A cc_library of generated code; `a/b.proto` is included as "a/b.pb.h".

    Imports in the .proto files are paths from the repository root.

    Args:
      name: the library. `<name>_protos` are the files, with those they import.
      srcs: .proto files of this package.
      deps: other cc_proto libraries, whose files these import.
      grpc: also generate the services ("a/b.grpc.pb.h").
      visibility: as usual.
      testonly: as usual.
    """
    native.filegroup(
        name = name + "_protos",
        srcs = srcs + [_protos_of(dep) for dep in deps],
        testonly = testonly,
        visibility = visibility,
    )
    stems = [src[:-len(".proto")] for src in srcs]
    suffixes = [".pb"] + ([".grpc.pb"] if grpc else [])
    sources = [stem + suffix + ".cc" for stem in stems for suffix in suffixes]
    headers = [stem + suffix + ".h" for stem in stems for suffix in suffixes]
    paths = " ".join(["$(execpath %s)" % src for src in srcs])

    # In another workspace, this repository is in the folder external/tributary.
    repository = native.repository_name()[1:]
    root = "external/" + repository if repository else "."
    out = "$(GENDIR)/" + root if repository else "$(GENDIR)"
    native.genrule(
        name = name + "_generate",
        srcs = srcs + [_protos_of(dep) for dep in deps],
        outs = sources + headers,
        cmd = _GENERATE.format(
            grpc = _GRPC.format(out = out) if grpc else "",
            out = out,
            root = root,
        ).replace("$(SRCS)", paths),
        testonly = testonly,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = ["-w"],
        testonly = testonly,
        visibility = visibility,
        deps = deps + ["//third_party/system:protobuf"] +
               (["//third_party/system:grpcpp"] if grpc else []),
    )
