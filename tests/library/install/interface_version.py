#!/usr/bin/env python3
"""Checks that the version is raised when the public interface changes.

  interface_version.py check RECORDED ACTUAL    fails, with the remedy, unless equal
  interface_version.py record RECORDED ACTUAL   replaces RECORDED by ACTUAL if the
                                                version allows the change

ACTUAL is what library/install/print_interface.sh prints: a line `version X.Y.Z`,
and then the declarations. RECORDED has, before them, a line `release X.Y.Z DIGEST`
for each recorded version, the newest last. DIGEST is the SHA-256 of the version's
declarations, so that a recorded version cannot change unnoticed.
"""

import collections
import hashlib
import sys

MOST_NAMED = 10  # Removed declarations that a message names.
RECORD = ('record the interface:\n'
          '  bazel build //library/install:public_interface.txt\n'
          '  tests/library/install/interface_version.py record \\\n'
          '      tests/library/install/public_interface.txt \\\n'
          '      bazel-bin/library/install/public_interface.txt')


class Refused(Exception):
    pass


def read(path):
    """Returns the releases as (version, digest), the version, and the declarations."""
    with open(path) as file:
        lines = file.read().splitlines()
    releases = []
    while lines and lines[0].startswith('release '):
        releases.append(tuple(lines.pop(0).split()[1:]))
    if not lines or not lines[0].startswith('version '):
        raise Refused(f'{path} has no line "version"')
    return releases, lines[0].split()[1], lines[1:]


def digest(declarations):
    return hashlib.sha256('\n'.join(declarations).encode()).hexdigest()


def numbers(version):
    return tuple(int(part) for part in version.split('.'))


def removed(old, new):
    """Returns the declarations of `old` that `new` lacks, each with its header."""
    def count(declarations):
        header, counts = '', collections.Counter()
        for line in declarations:
            if line.startswith('== '):
                header = line[3:]
            counts[f'{header}: {line}'] += 1
        return counts
    return list((count(old) - count(new)).elements())


def least_version(version, missing):
    """Returns the lowest version that may follow `version`."""
    major, minor, _ = numbers(version)
    if missing:
        return (major + 1, 0, 0) if major > 0 else (0, minor + 1, 0)
    return (major, minor + 1, 0) if major > 0 else numbers(version)


def check_change(recorded_path, actual_path):
    """Raises Refused unless the version allows the change. Returns both files."""
    recorded, actual = read(recorded_path), read(actual_path)
    releases, version, declarations = recorded
    if not releases or releases[-1] != (version, digest(declarations)):
        raise Refused(f'{recorded_path} does not match its digest of version {version}. '
                      'Do not edit it: restore it, and ' + RECORD)
    if actual[2] == declarations:
        if numbers(actual[1]) < numbers(version):
            raise Refused(f'VERSION is {actual[1]}, and {version} is already recorded: '
                          'raise VERSION in version.bzl')
        return recorded, actual
    missing = removed(declarations, actual[2])
    least = least_version(version, missing)
    if numbers(actual[1]) < least:
        what = ('removed or changed' if missing else 'added')
        named = ''.join(f'\n  {line}' for line in missing[:MOST_NAMED])
        raise Refused(f'Declarations of version {version} were {what}:{named}\n'
                      f'VERSION is {actual[1]}. Raise it in version.bzl to '
                      f'{".".join(map(str, least))} or higher, as docs/cpp.md '
                      'describes, or restore the declarations. Then ' + RECORD)
    return recorded, actual


def check(recorded_path, actual_path):
    recorded, actual = check_change(recorded_path, actual_path)
    if recorded[1:] != actual[1:]:
        raise Refused(f'The public interface or the version has changed, and version '
                      f'{actual[1]} allows the change. If it is intended, ' + RECORD)


def record(recorded_path, actual_path):
    (releases, version, _), (_, new_version, declarations) = check_change(
        recorded_path, actual_path)
    if new_version == version:
        releases.pop()
    releases.append((new_version, digest(declarations)))
    with open(recorded_path, 'w') as file:
        for release in releases:
            file.write('release {} {}\n'.format(*release))
        file.write(f'version {new_version}\n' + '\n'.join(declarations) + '\n')


if __name__ == '__main__':
    try:
        {'check': check, 'record': record}[sys.argv[1]](*sys.argv[2:])
    except Refused as refused:
        sys.exit(f'{refused}')
