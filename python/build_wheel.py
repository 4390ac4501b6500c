#!/usr/bin/env python3
"""Builds the wheel of the Python package.

`./tributary wheel` calls it, and it is the build backend (PEP 517) of pyproject.toml.

The wheel contains the package, the program `tributary`, the native library, and the
shared libraries that both need, except those of the C and C++ runtime. It serves
every Python from 3.9 on. Its tag states the oldest C library that has all symbols
which the native files need. The same input gives the same bytes.
"""

import argparse
import base64
import csv
import hashlib
import io
import os
import pathlib
import platform
import re
import subprocess
import sys
import zipfile

PYTHON = pathlib.Path(__file__).absolute().parent
ROOT = PYTHON.parent
# Libraries that belong to the system; another copy in the process would conflict.
# The policies of manylinux allow all of them.
SYSTEM = re.compile(r'(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so.*')
# The newest symbol versions of GCC's libraries on systems with glibc 2.N, by N, as in
# the policies of manylinux.
RUNTIMES = {
    34: {'GLIBCXX': (3, 4, 29), 'CXXABI': (1, 3, 13), 'GCC': (7, 0, 0)},
    35: {'GLIBCXX': (3, 4, 30), 'CXXABI': (1, 3, 13), 'GCC': (12, 0, 0)},
    39: {'GLIBCXX': (3, 4, 33), 'CXXABI': (1, 3, 15), 'GCC': (14, 0, 0)},
}
# The oldest time that a zip file can state.
TIME = (1980, 1, 1, 0, 0, 0)

METADATA = '''\
Metadata-Version: 2.1
Name: tributary
Version: {version}
Summary: Workers in Python for Tributary, a parameter-server training system
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >=3.9
Requires-Dist: numpy>=1.19
Provides-Extra: torch
Requires-Dist: torch>=1.13; extra == 'torch'
Description-Content-Type: text/markdown

{description}'''
WHEEL = '''\
Wheel-Version: 1.0
Generator: tributary
Root-Is-Purelib: {pure}
Tag: {tag}
'''
ENTRY_POINTS = '''\
[console_scripts]
tributary = tributary._program:main
'''


def version():
    if not (ROOT / 'version.bzl').is_file():
        # Versions of pip before 21.3 copy the folder of pyproject.toml.
        sys.exit(f'tributary: {PYTHON} is not in a clone of the source: '
                 'run pip 21.3 or newer in a clone')
    return re.search(r'^VERSION = "(.*)"$', (ROOT / 'version.bzl').read_text(),
                     re.MULTILINE)[1]


def build_native_files():
    """Returns the paths of the native library and of the program, after building."""
    if subprocess.run([ROOT / 'third_party/system/install_packages.sh']).returncode != 0:
        sys.exit(1)  # The script has said why.
    targets = ['//library/c_api:libtributary_c.so', '//python:tributary_program']
    try:
        subprocess.run(['bazel', 'build', *targets], cwd=ROOT, check=True,
                       stdout=sys.stderr)
        folder = subprocess.run(['bazel', 'info', 'bazel-bin'], cwd=ROOT, check=True,
                                stdout=subprocess.PIPE, text=True).stdout.strip()
    except subprocess.CalledProcessError:
        sys.exit('tributary: the build failed, see above')
    return (os.path.join(folder, 'library/c_api/libtributary_c.so'),
            os.path.join(folder, 'python/tributary_program'))


def given_or_built(settings):
    """Returns the absolute paths of the native library and of the program."""
    library, program = settings.get('library'), settings.get('program')
    if not (library and program):
        library, program = build_native_files()
    return os.path.realpath(library), os.path.realpath(program)


def shell(script, *arguments):
    """Runs a function of deploy/compose/libraries.sh."""
    source = ROOT / 'deploy' / 'compose' / 'libraries.sh'
    return subprocess.run(['bash', '-euc', f'source "$0"; {script}', source, *arguments],
                          check=True, capture_output=True, text=True).stdout


def native_files(library, program):
    """Returns the paths of the files in tributary/_native by their names."""
    files = {'libtributary_c.so': library, 'tributary': program}
    for path in shell('libraries_of "$@"', library, program).split():
        if not SYSTEM.fullmatch(os.path.basename(path)):
            files[os.path.basename(path)] = path
    return files


def symbol_versions(path):
    """Returns the versions of the system's symbols that a file needs."""
    text = subprocess.run(['objdump', '--private-headers', path], check=True,
                          capture_output=True, text=True,
                          env={**os.environ, 'LC_ALL': 'C'}).stdout
    needs = re.findall(r'required from (\S+):\n((?: +0x.*\n)+)', text)
    return {line.split()[-1] for library, lines in needs if SYSTEM.fullmatch(library)
            for line in lines.splitlines()}


def oldest_glibc(symbol_version):
    """Returns N of the oldest glibc 2.N whose systems have symbols of this version."""
    if symbol_version == 'GLIBC_ABI_DT_RELR':
        return 36
    family, _, number = symbol_version.partition('_')
    if not re.fullmatch(r'[0-9.]+', number):
        sys.exit(f'tributary: a library needs symbols of {symbol_version}, which no tag '
                 'of a wheel promises')
    number = tuple(int(part) for part in number.split('.'))
    if family == 'GLIBC':
        return number[1]
    for glibc, newest in RUNTIMES.items():
        if number <= newest[family]:
            return glibc
    # A newer compiler: systems at least as new as this one.
    return int(platform.libc_ver()[1].split('.')[1])


def platform_tag(paths):
    versions = set().union(*(symbol_versions(path) for path in paths))
    glibc = max(oldest_glibc(symbol_version) for symbol_version in versions)
    return f'manylinux_2_{glibc}_{platform.machine()}'


def licenses_of(files):
    """Returns the copyright files of the Debian packages of the libraries."""
    found = {}
    # One call, because each reads the lists of all packages.
    names = [name for path in files.values()
             for name in (os.path.realpath(path), '/usr' + path, path)]
    owned = shell('dpkg-query -S "$@" 2>/dev/null || true', *names).splitlines()
    for owner in sorted({line.split(':')[0] for line in owned}):
        copyright_file = pathlib.Path('/usr/share/doc', owner, 'copyright')
        if copyright_file.is_file():
            found[f'licenses/{owner}'] = copyright_file.read_bytes()
    found['licenses/tributary'] = (ROOT / 'LICENSE').read_bytes()
    return found


def metadata():
    """Returns the files of the folder .dist-info that need no native files."""
    description = (ROOT / 'docs' / 'python.md').read_text()
    return {'METADATA': METADATA.format(version=version(),
                                        description=description).encode(),
            'entry_points.txt': ENTRY_POINTS.encode()}


def write(folder, contents, info, tag, pure=False):
    """Writes a wheel and returns its path.

    `contents`: the bytes of the files by name. `info`: those in .dist-info.
    """
    name = f'tributary-{version()}'
    info = {**info, 'WHEEL': WHEEL.format(tag=tag, pure=str(pure).lower()).encode()}
    contents = {**contents,
                **{f'{name}.dist-info/{file}': data for file, data in info.items()}}
    own_name = f'{name}.dist-info/RECORD'
    contents[own_name] = record(contents, own_name)

    path = pathlib.Path(folder, f'{name}-{tag}.whl')
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix('.tmp')
    with zipfile.ZipFile(unfinished, 'w', zipfile.ZIP_DEFLATED) as wheel:
        for file, data in contents.items():
            entry = zipfile.ZipInfo(file, TIME)
            mode = 0o755 if file.startswith('tributary/_native/') else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    unfinished.replace(path)
    return path


def record(contents, own_name):
    """Returns the list of files with their digests."""
    table = io.StringIO()
    rows = csv.writer(table, lineterminator='\n')
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        rows.writerow([name, f"sha256={digest.rstrip(b'=').decode()}", len(data)])
    rows.writerow([own_name, '', ''])
    return table.getvalue().encode()


def write_wheel(folder, settings):
    """Writes the wheel and returns its path. `settings`: those of the hooks."""
    info = metadata()
    library, program = given_or_built(settings)
    contents = {f'tributary/{path.name}': path.read_bytes()
                for path in sorted((PYTHON / 'tributary').iterdir())
                if path.suffix == '.py' or path.name == 'py.typed'}
    try:
        native = native_files(library, program)
        licenses = licenses_of(native)
        tag = f'py3-none-{platform_tag(native.values())}'
    except subprocess.CalledProcessError as error:
        sys.exit(f'tributary: {error}: {error.stderr}')
    for name, path in native.items():
        contents[f'tributary/_native/{name}'] = pathlib.Path(path).read_bytes()
    return write(folder, contents, {**licenses, **info}, tag)


# The hooks of PEP 517 and PEP 660, which pip calls. The settings `library` and
# `program` are paths of native files that exist already.


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, config_settings or {}).name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    info = metadata()
    library, program = given_or_built(config_settings or {})
    # Links, so that building again is enough to replace them. The libraries that they
    # need are those of this system.
    folder = PYTHON / 'tributary' / '_native'
    folder.mkdir(exist_ok=True)
    for name, path in (('libtributary_c.so', library), ('tributary', program)):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(path)
    return write(wheel_directory, {'tributary.pth': f'{PYTHON}\n'.encode()}, info,
                 'py3-none-any', pure=True).name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory, f'tributary-{version()}.dist-info')
    folder.mkdir()
    for name, data in metadata().items():
        (folder / name).write_bytes(data)
    return folder.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_sdist(sdist_directory, config_settings=None):
    sys.exit('tributary: there is no source distribution, because this folder is only '
             'a part of the source: run `pip install ./python` in a clone')


def main():
    parser = argparse.ArgumentParser(
        prog='tributary wheel',
        description='Builds the wheel of the Python package.')
    parser.add_argument('--output', default='.', help='folder of the wheel; default: .',
                        metavar='DIR')
    parser.add_argument('--library', help='path of an existing libtributary_c.so')
    parser.add_argument('--program', help='path of an existing program')
    options = parser.parse_args()
    print(write_wheel(options.output, vars(options)))


if __name__ == '__main__':
    main()
