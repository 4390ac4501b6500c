"""The wheel, as a user installs it, without a network."""

import base64
import csv
import email
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

import support


LIBRARY = os.path.abspath('library/c_api/libtributary_c.so')
PROGRAM = os.path.abspath('python/tributary_program')
# As pip calls the hooks of the backend that pyproject.toml names.
HOOK = '''
import json, sys
import build_wheel
hook, folder, settings = sys.argv[1:]
print(getattr(build_wheel, hook)(folder, json.loads(settings)))
'''


class WheelTest(support.JobTest):

    def build(self, folder):
        result = subprocess.run(
            [sys.executable, 'python/build_wheel.py', '--output', folder,
             '--library', LIBRARY, '--program', PROGRAM],
            check=True, capture_output=True, text=True)
        return result.stdout.strip()

    def run_hook(self, name, folder, source='python'):
        """Returns the process, and the path that the hook names."""
        os.makedirs(folder, exist_ok=True)
        result = subprocess.run(
            [sys.executable, '-c', HOOK, name, folder,
             json.dumps({'library': LIBRARY, 'program': PROGRAM})],
            cwd=source, capture_output=True, text=True)
        return result, os.path.join(folder, result.stdout.strip())

    def test_is_installed_from_the_source_and_trains(self):
        environment = os.path.join(self.folder, 'environment')
        # The system has NumPy, which cannot be downloaded here.
        made = subprocess.run([sys.executable, '-m', 'venv', '--system-site-packages',
                               environment], capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest("needs Debian's package python3-venv: " + made.stdout)
        python = os.path.join(environment, 'bin', 'python')
        # Nothing of the source tree.
        variables = {'PATH': '/usr/bin:/bin', 'HOME': self.folder}

        def run(*command):
            result = subprocess.run(command, capture_output=True, text=True,
                                    env=variables, cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return result.stdout

        # Paths as the only settings: nothing is built.
        run(python, '-m', 'pip', 'install', '--no-index',
            '--config-settings', 'library=' + LIBRARY,
            '--config-settings', 'program=' + PROGRAM, os.path.abspath('python'))
        program = os.path.join(environment, 'bin', 'tributary')
        version = run(python, '-c', 'from importlib import metadata\n'
                      'print(metadata.version("tributary"))').strip()
        self.assertIn(f'tributary {version} ', run(program, '--version'))
        run(program, 'train', os.path.join(support.EXAMPLES, 'regression.textproto'),
            '--output', 'run', '--worker-command',
            python + ' ' + os.path.join(support.EXAMPLES, 'regression.py'))
        with open(os.path.join(self.folder, 'run', 'summary.json'),
                  encoding='utf-8') as file:
            self.assertEqual(json.load(file)['status'], 'done')
        native = run(python, '-c', 'import tributary._native as n; print(n._FOLDER)')
        self.assertTrue(native.startswith(os.path.realpath(environment)), native)
        for name in ('libtributary_c.so', 'tributary'):
            libraries = run('/usr/bin/ldd', os.path.join(native.strip(), name))
            self.assertRegex(libraries, 'libprotobuf.* => ' + native.strip())
            if name == 'libtributary_c.so':
                # Python may load another version of OpenSSL.
                self.assertNotRegex(libraries, 'libssl|libcrypto')

    def test_has_the_same_bytes_from_the_command_and_from_the_backend(self):
        built = self.build(os.path.join(self.folder, 'a'))
        result, hooked = self.run_hook('build_wheel', os.path.join(self.folder, 'b'))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.path.basename(built), os.path.basename(hooked))
        with open(built, 'rb') as a, open(hooked, 'rb') as b:
            self.assertTrue(a.read() == b.read())
        with zipfile.ZipFile(built) as wheel:
            self.check_tag(built, wheel)
            self.check_record(wheel)
            self.check_metadata(wheel)

    def read(self, wheel, name):
        version = os.path.basename(wheel.filename).split('-')[1]
        return wheel.read(f'tributary-{version}.dist-info/{name}').decode()

    def check_tag(self, path, wheel):
        """Compares the tag with the symbols that the native files need."""
        tag = re.fullmatch(r'tributary-[0-9.]+-(py3-none-manylinux_2_(\d+)_\w+)\.whl',
                           os.path.basename(path))
        self.assertTrue(tag, path)
        described = email.message_from_string(self.read(wheel, 'WHEEL'))
        self.assertEqual(described.get_all('Tag'), [tag[1]])
        self.assertEqual(described['Root-Is-Purelib'], 'false')
        folder = os.path.join(self.folder, 'unpacked')
        wheel.extractall(folder)
        folder = os.path.join(folder, 'tributary', '_native')
        needed = set()
        for name in os.listdir(folder):
            table = subprocess.run(
                ['readelf', '--wide', '--dynamic', '--version-info',
                 os.path.join(folder, name)],
                check=True, capture_output=True, text=True,
                env={**os.environ, 'LC_ALL': 'C'}).stdout
            needed.update(int(minor) for minor in
                          re.findall(r'Name: GLIBC_2\.(\d+)', table))
            for library in re.findall(r'\(NEEDED\).*\[(.*)\]', table):
                # All others are those that every tag manylinux_* promises.
                if library not in os.listdir(folder):
                    self.assertRegex(library, r'^(ld-linux-.*|lib(c|m|dl|rt|pthread|'
                                     r'resolv|util|stdc\+\+|gcc_s))\.so\.\d+$', name)
        self.assertGreaterEqual(int(tag[2]), max(needed))

    def check_record(self, wheel):
        rows = list(csv.reader(self.read(wheel, 'RECORD').splitlines()))
        self.assertEqual([name for name, _, _ in rows], wheel.namelist())
        for name, digest, size in rows[:-1]:
            data = wheel.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            self.assertEqual(digest, 'sha256=' + expected.decode().rstrip('='), name)
            self.assertEqual(size, str(len(data)), name)
        self.assertRegex(rows[-1][0], r'\.dist-info/RECORD$')
        self.assertEqual(rows[-1][1:], ['', ''])

    def check_metadata(self, wheel):
        result, folder = self.run_hook('prepare_metadata_for_build_wheel',
                                       os.path.join(self.folder, 'metadata'))
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ('METADATA', 'entry_points.txt'):
            with open(os.path.join(folder, name), encoding='utf-8') as file:
                self.assertEqual(file.read(), self.read(wheel, name))
        described = email.message_from_string(self.read(wheel, 'METADATA'))
        requirements = described.get_all('Requires-Dist')
        self.assertTrue(requirements[0].startswith('numpy'), requirements)
        self.assertTrue(requirements[1].endswith("extra == 'torch'"), requirements)

    def test_is_installed_as_links_to_the_source(self):
        source = os.path.join(self.folder, 'clone', 'python')
        for name in ('python/build_wheel.py', 'version.bzl', 'docs/python.md'):
            copy = os.path.join(self.folder, 'clone', name)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copy(name, copy)
        shutil.copytree('python/tributary', os.path.join(source, 'tributary'))
        for _ in range(2):  # The second time, there are links.
            result, path = self.run_hook('build_editable', self.folder, source)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(path.endswith('-py3-none-any.whl'), path)
        with zipfile.ZipFile(path) as wheel:
            self.check_record(wheel)
            self.assertIn('tributary', self.read(wheel, 'entry_points.txt'))
            folder = wheel.read('tributary.pth').decode().strip()
        self.assertEqual(os.path.realpath(folder), os.path.realpath(source))
        loaded = subprocess.run(
            [sys.executable, '-c', 'import tributary._native as n; n.library()\n'
             'print(n.__file__); print(n.program())'], cwd=self.folder,
            env={**os.environ, 'PYTHONPATH': folder}, check=True, capture_output=True,
            text=True).stdout.split()
        self.assertTrue(loaded[0].startswith(folder), loaded)
        self.assertTrue(os.access(loaded[1], os.X_OK), loaded)

    def test_has_no_source_distribution(self):
        result, _ = self.run_hook('build_sdist', self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count('\n'), 1, result.stderr)
        self.assertIn('pip install ./python', result.stderr)


if __name__ == '__main__':
    unittest.main()
