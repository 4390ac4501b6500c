#!/usr/bin/env python3
"""Builds the wheel of the Python package; `./tributary wheel` calls it.

The wheel contains the package, the program `tributary`, the native library, and the
shared libraries that both need, except those of the C and C++ runtime. It serves
every Python from 3.9 on, on systems whose C library is at least as new as this one.
The same input gives the same bytes.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Libraries that belong to the system; another copy in the process would conflict.
SYSTEM = re.compile(r'(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so.*')
# The oldest time that a zip file can state.
TIME = (1980, 1, 1, 0, 0, 0)

METADATA = '''\
Metadata-Version: 2.1
Name: tributary
Version: {version}
Summary: Workers in Python for Tributary, a parameter-server training system
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy>=1.19
Provides-Extra: torch
Requires-Dist: torch>=1.13; extra == 'torch'
Description-Content-Type: text/markdown

{description}'''
WHEEL = '''\
Wheel-Version: 1.0
Generator: tributary
Root-Is-Purelib: false
Tag: {tag}
'''
ENTRY_POINTS = '''\
[console_scripts]
tributary = tributary._program:main
'''


def version_of(program):
    line = subprocess.run([program, '--version'], check=True, capture_output=True,
                          text=True).stdout
    return line.split()[1]


def platform_tag():
    library, version = platform.libc_ver()
    if library != 'glibc':
        raise SystemExit('build_wheel.py: the C library is not glibc')
    return f"manylinux_{version.replace('.', '_')}_{platform.machine()}"


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


def licenses_of(files):
    """Returns the copyright files of the Debian packages of the libraries."""
    found = {}
    for path in sorted(files.values()):
        owner = shell('dpkg-query -S "$(realpath "$1")" "/usr$1" "$1" 2>/dev/null || true',
                      path).split(':')[0].strip()
        copyright_file = pathlib.Path('/usr/share/doc', owner, 'copyright')
        if owner and copyright_file.is_file():
            found[f'licenses/{owner}'] = copyright_file.read_bytes()
    found['licenses/tributary'] = (ROOT / 'LICENSE').read_bytes()
    return found


def write(folder, version, native):
    """Writes the wheel and returns its path."""
    tag = f'py3-none-{platform_tag()}'
    info = f'tributary-{version}.dist-info'
    contents = {f'tributary/{path.name}': path.read_bytes()
                for path in sorted((ROOT / 'python' / 'tributary').iterdir())
                if path.suffix == '.py' or path.name == 'py.typed'}
    for name, path in native.items():
        contents[f'tributary/_native/{name}'] = pathlib.Path(path).read_bytes()
    for name, text in licenses_of(native).items():
        contents[f'{info}/{name}'] = text
    description = (ROOT / 'docs' / 'python.md').read_text()
    contents[f'{info}/METADATA'] = METADATA.format(
        version=version, description=description).encode()
    contents[f'{info}/WHEEL'] = WHEEL.format(tag=tag).encode()
    contents[f'{info}/entry_points.txt'] = ENTRY_POINTS.encode()
    contents[f'{info}/RECORD'] = record(contents, f'{info}/RECORD')

    path = pathlib.Path(folder, f'tributary-{version}-{tag}.whl')
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix('.tmp')
    with zipfile.ZipFile(unfinished, 'w', zipfile.ZIP_DEFLATED) as wheel:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, TIME)
            mode = 0o755 if name.startswith('tributary/_native/') else 0o644
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--library', required=True, help='path of libtributary_c.so')
    parser.add_argument('--program', required=True, help='path of the program')
    parser.add_argument('--output', default='.', help='folder of the wheel; default: .')
    options = parser.parse_args()
    library, program = (os.path.realpath(path)
                        for path in (options.library, options.program))
    try:
        path = write(options.output, version_of(program), native_files(library, program))
    except subprocess.CalledProcessError as error:
        sys.exit(f'build_wheel.py: {error}: {error.stderr}')
    print(path)


if __name__ == '__main__':
    main()
