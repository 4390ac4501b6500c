"""docs/pretrained.md: its code loads exported models. Also runs compare_gpt2.py
with a small model."""

import importlib.util
import os
import re
import subprocess
import sys
import unittest

import support
from tributary import _native

TOOL = os.path.abspath('tests/worker/models/gpt2_logits')
COMPARE = os.path.abspath('tests/worker/models/compare_gpt2.py')
JOB = """
model { gpt { layers: 1 heads: 2 width: 16 context: 8 vocabulary: 50 } }
data { random { samples: 4 } }
batch { global: 2 micro_batches: 1 }
optimizer { sgd { learning_rate: 0.1 } }
steps: 1
output { sample_bytes: 0 }
"""


def has(*packages):
    return all(importlib.util.find_spec(package) for package in packages)


def run(*command, folder=None):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def blocks(word):
    """Returns the code blocks of the page that contain the word."""
    with open('docs/pretrained.md', encoding='utf-8') as file:
        found = re.findall(r'```python\n(.*?)```', file.read(), re.DOTALL)
    return [block for block in found if word in block]


class PretrainedPageTest(support.JobTest):

    def export(self, *formats):
        """Trains a gpt, and exports it to one folder for each format."""
        program = _native.program()
        output = os.path.join(self.folder, 'run')
        run(program, 'train', self.write_job('job', JOB), '--output', output, '--workers', '1')
        for name, kind in formats:
            run(program, 'export', output, '--format', kind, '--output',
                os.path.join(self.folder, name))

    def test_names_code_for_each_format(self):
        self.assertEqual(len(blocks('GPT2LMHeadModel')), 1)
        self.assertEqual(len(blocks('safetensors.numpy')), 1)

    @unittest.skipUnless(has('numpy', 'safetensors'), 'needs numpy and safetensors')
    def test_numpy_loads_any_model(self):
        self.export(('exported', 'safetensors'))
        [code] = blocks('safetensors.numpy')
        code += '\nassert weights["transformer.wte.weight"].shape == (50, 16)\n'
        run(sys.executable, '-c', code, folder=self.folder)

    @unittest.skipUnless(has('torch', 'transformers'), 'needs torch and transformers')
    def test_transformers_loads_a_gpt(self):
        self.export(('gpt2-tuned', 'huggingface'))
        [code] = blocks('GPT2LMHeadModel')
        code += '\nassert model.transformer.wte.weight.shape == (50, 16)\n'
        run(sys.executable, '-c', code, folder=self.folder)

    @unittest.skipUnless(has('torch', 'transformers', 'numpy'), 'needs torch and transformers')
    def test_a_small_gpt2_is_that_of_transformers(self):
        run(sys.executable, COMPARE, _native.program(), TOOL, self.folder, '--size', 'tiny')


if __name__ == '__main__':
    unittest.main()
