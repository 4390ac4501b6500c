"""cc_library and cc_test, compiled in less time than Bazel's own.

Parsing headers takes most of the time in which an ordinary file compiles. So a
library's source files are compiled several at a time, as one translation unit
(a "unity build"), and the headers that most files include are precompiled.
Targets with options of their own (`copts`) are compiled file by file, without
precompiled headers, and so is everything with
--define=tributary_compile=separately.
"""

# More files in a unit save little more, and a change of one recompiles them all.
_MAX_FILES_IN_UNIT = 8

def _include(header):
    return select({
        "//third_party/bazel:compile_separately": [],
        "//conditions:default": [
            "-include",
            "third_party/bazel/%s.h" % header,
            # GCC 12 warns of std::string's move where it inlines it into our
            # code (GCC bug 105329), and a precompiled header hides that the
            # place is in a system header.
            "-Wno-array-bounds",
            # GCC notes that it stops checking, because precompiled headers
            # leave too few line numbers to tell columns.
            "-Wno-misleading-indentation",
            # GCC takes what follows #line for a header, in which a type must
            # not have members whose types are in unnamed namespaces. Clang does
            # not know the option.
            "-Wno-unknown-warning-option",
            "-Wno-subobject-linkage",
        ],
    })

def _dep(header):
    return select({
        "//third_party/bazel:compile_separately": [],
        "//conditions:default": ["//third_party/bazel:" + header],
    })

def _units(name, srcs, attributes):
    """Returns labels of files that contain all of `srcs`, several each."""
    count = (len(srcs) + _MAX_FILES_IN_UNIT - 1) // _MAX_FILES_IN_UNIT
    units = []
    for i in range(count):
        unit = "%s_unit_%d" % (name, i + 1)
        native.genrule(
            name = unit,
            srcs = srcs[i * len(srcs) // count:(i + 1) * len(srcs) // count],
            outs = [unit + ".cc"],
            # Errors and debuggers name the lines of the source files.
            cmd = "for file in $(SRCS); do" +
                  " printf '#line 1 \"%s\"\\n' $$file; cat $$file; done >$@",
            tags = ["manual"],
            visibility = ["//visibility:private"],
            **attributes
        )
        units.append(":" + unit)
    return units

def _compile(rule, header, name, srcs, copts, options = [], **kwargs):
    """Declares a target of `rule` with units and the precompiled `header`."""

    # tests/structure/rooms.txt says which folders may include which.
    kwargs.setdefault("visibility", ["//visibility:public"])
    if srcs and not copts:
        sources = [file for file in srcs if file.endswith(".cc")]
        if len(sources) > 1:
            attributes = {
                key: kwargs[key]
                for key in ["target_compatible_with", "testonly"]
                if key in kwargs
            }
            srcs = [file for file in srcs if file not in sources] + select({
                "//third_party/bazel:compile_separately": sources,
                "//conditions:default": _units(name, sources, attributes),
            })
        copts = _include(header) + options
        kwargs["deps"] = kwargs.get("deps", []) + _dep(header)
    rule(name = name, srcs = srcs, copts = copts, **kwargs)

def cc_library(name, srcs = [], copts = [], **kwargs):
    """native.cc_library whose source files share translation units.

    Two source files of a library must not define the same name in an unnamed
    namespace, or by #define, except for overloads that no call can confuse.

    Programs are linked statically, so building a library must not also link a
    shared one.

    Args:
      name: the library.
      srcs: a list; not the result of select().
      copts: if there are any, each file is compiled alone.
      **kwargs: passed to native.cc_library.
    """
    _compile(
        native.cc_library,
        "precompiled_header",
        name,
        srcs,
        copts,
        linkstatic = True,
        **kwargs
    )

def cc_test(name, srcs = [], copts = [], size = "small", **kwargs):
    """native.cc_test whose source files share translation units.

    A test's own source files are optimized a little only, which saves a quarter
    of the time in which they compile. Libraries under test are not affected,
    except for functions that they define in headers.

    Args:
      name: the test.
      srcs: a list; not the result of select().
      copts: if there are any, each file is compiled alone and fully optimized.
      size: as usual.
      **kwargs: passed to native.cc_test.
    """
    _compile(
        native.cc_test,
        "precompiled_test_header",
        name,
        srcs,
        copts,
        size = size,
        testonly = True,
        options = select({
            "//third_party/bazel:optimized": ["-O1"],
            "//conditions:default": [],
        }),
        **kwargs
    )
