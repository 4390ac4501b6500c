"""The pages show code of the examples."""

import glob
import os
import re
import unittest

import support


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


class PageTest(unittest.TestCase):

    def test_shows_code_of_the_examples(self):
        sources = [read(path) for path in glob.glob(support.EXAMPLES + '/*.py')]
        for page, least in (('docs/python.md', 4), ('docs/trainers.md', 3),
                            ('docs/parallel.md', 1)):
            blocks = re.findall(r'```python\n(.*?)```', read(page), re.DOTALL)
            self.assertGreaterEqual(len(blocks), least)
            for block in blocks:
                self.assertTrue(any(block in source for source in sources), block)

    def test_shows_the_job_of_an_example(self):
        jobs = [read(path) for path in glob.glob(support.EXAMPLES + '/*.textproto')]
        blocks = re.findall(r'```\n(name:.*?)```', read('docs/python.md'), re.DOTALL)
        self.assertTrue(blocks)
        for block in blocks:
            self.assertTrue(any(job.endswith(block) for job in jobs), block)

    def test_examples_are_short(self):
        for path in glob.glob(os.path.join(support.EXAMPLES, '*.py')):
            self.assertLess(read(path).count('\n'), 61, path)

    def test_is_linked(self):
        self.assertIn('(docs/python.md)', read('README.md'))
        self.assertIn('(python.md)', read('docs/README.md'))
        self.assertIn('(trainers.md)', read('docs/README.md'))
        self.assertIn('(trainers.md)', read('docs/python.md'))


if __name__ == '__main__':
    unittest.main()
