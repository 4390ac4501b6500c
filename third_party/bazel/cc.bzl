"""cc_library and cc_test, compiled with precompiled headers.

Parsing the standard library, Abseil and Protocol Buffers takes more than half
of the time in which an ordinary file compiles. Targets with options of their
own (`copts`) are compiled without.
"""

def _include(header):
    return select({
        "//third_party/bazel:without_precompiled_headers": [],
        "//conditions:default": [
            "-include",
            "third_party/bazel/%s.h" % header,
            # GCC 12 warns of std::string's move where it inlines it into our
            # code (GCC bug 105329), and a precompiled header hides that the
            # place is in a system header.
            "-Wno-array-bounds",
        ],
    })

def _dep(header):
    return select({
        "//third_party/bazel:without_precompiled_headers": [],
        "//conditions:default": ["//third_party/bazel:" + header],
    })

def _compile(rule, header, options = [], **kwargs):
    if not kwargs.get("copts") and kwargs.get("srcs"):
        kwargs["copts"] = _include(header) + options
        kwargs["deps"] = kwargs.get("deps", []) + _dep(header)
    rule(**kwargs)

def cc_library(**kwargs):
    """native.cc_library with the header precompiled for libraries.

    Programs are linked statically, so building a library must not also link a
    shared one.
    """
    _compile(native.cc_library, "precompiled_header", linkstatic = True, **kwargs)

def cc_test(**kwargs):
    """native.cc_test with the header precompiled for tests.

    A test's own source file is optimized a little only, which saves a quarter
    of the time in which it compiles. Libraries under test are not affected,
    except for functions that they define in headers.
    """
    _compile(
        native.cc_test,
        "precompiled_test_header",
        options = select({
            "//third_party/bazel:optimized": ["-O1"],
            "//conditions:default": [],
        }),
        **kwargs
    )
