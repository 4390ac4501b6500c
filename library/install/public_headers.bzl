"""The public headers, in the layout of an installation."""

def _public_headers_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    paths = [header.path for header in context.headers.to_list()]
    for header in ctx.files.hdrs:
        if not [path for path in paths if path.endswith("/tributary/" + header.basename)]:
            fail("%s: add its library to deps" % header.short_path)
    ctx.actions.run(
        executable = ctx.file._copy,
        arguments = [folder.path] + [header.path for header in ctx.files.hdrs],
        inputs = depset(ctx.files.hdrs, transitive = [context.headers]),
        outputs = [folder],
        mnemonic = "PublicHeaders",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles([folder]))]

public_headers = rule(
    doc = "A folder with `hdrs` in tributary/, and with the headers of `deps` " +
          "that they include in tributary/internal/.",
    implementation = _public_headers_impl,
    attrs = {
        "hdrs": attr.label_list(allow_files = [".h"], mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "_copy": attr.label(default = ":copy_headers.sh", allow_single_file = True),
    },
)
