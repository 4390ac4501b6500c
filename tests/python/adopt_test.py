"""The programs of tests/bench/adopt need few lines more to train with Tributary."""

import importlib.util
import os
import re
import unittest


def load_adopt():
    spec = importlib.util.spec_from_file_location(
        'adopt', os.path.abspath('tests/bench/adopt/adopt.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class AdoptTest(unittest.TestCase):

    def test_needs_at_most_two_lines_more_than_ddp(self):
        adopt = load_adopt()
        for name in adopt.JOBS:
            ddp, ours = adopt.count(name)[1:]
            self.assertLessEqual(ours, ddp + 2, name)
            self.assertGreater(ours, 0, name)

    def test_the_page_has_the_numbers_of_the_programs(self):
        adopt = load_adopt()
        with open('docs/trainers.md', encoding='utf-8') as file:
            rows = re.findall(r'^\| [^|]+ \| (\d+) \| (\d+) \| (\d+) \|$', file.read(), re.M)
        self.assertEqual([tuple(map(int, row)) for row in rows],
                         [adopt.count(name) for name in adopt.JOBS])


if __name__ == '__main__':
    unittest.main()
