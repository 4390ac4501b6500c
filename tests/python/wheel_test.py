"""The wheel, as a user installs it, without a network."""

import json
import os
import subprocess
import sys
import unittest

import support


class WheelTest(support.JobTest):

    def build(self, folder):
        result = subprocess.run(
            [sys.executable, 'python/build_wheel.py', '--output', folder,
             '--library', 'library/c_api/libtributary_c.so',
             '--program', 'python/tributary_program'],
            check=True, capture_output=True, text=True)
        return result.stdout.strip()

    def test_is_installed_and_trains(self):
        wheel = self.build(os.path.join(self.folder, 'wheel'))
        self.assertRegex(os.path.basename(wheel),
                         r'^tributary-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl$')
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

        run(python, '-m', 'pip', 'install', '--no-index', wheel)
        program = os.path.join(environment, 'bin', 'tributary')
        self.assertIn('tributary', run(program, '--version'))
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

    def test_has_the_same_bytes_each_time(self):
        contents = []
        for name in ('a', 'b'):
            with open(self.build(os.path.join(self.folder, name)), 'rb') as file:
                contents.append(file.read())
        self.assertTrue(contents[0] == contents[1])


if __name__ == '__main__':
    unittest.main()
