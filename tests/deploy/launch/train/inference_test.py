"""Tests `tributary evaluate` and `tributary predict` with trained models,
against the runs' own evaluations and against NumPy.

    inference_test.py TRIBUTARY
"""
import csv
import gzip
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zlib

import numpy as np

TRIBUTARY = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp(dir=os.environ.get('TEST_TMPDIR'))
TAIL = '''
batch { global: 32 micro_batches: 4 }
optimizer { adamw { learning_rate: 0.01 } }
steps: 20
output { tensorboard: false sample_bytes: 0 }
'''


def path(name):
    return os.path.join(FOLDER, name)


def run(*arguments):
    return subprocess.run([TRIBUTARY, *arguments], text=True, check=False,
                          capture_output=True, cwd=FOLDER)


def peak_memory(*arguments):
    """Returns the largest resident memory of a command, in bytes."""
    with subprocess.Popen([TRIBUTARY, *arguments], cwd=FOLDER,
                          stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, arguments
    return 1024 * usage.ru_maxrss


def train(name, job, *flags):
    with open(path(name + '.textproto'), 'w', encoding='utf-8') as file:
        file.write(job + TAIL)
    result = run('train', name + '.textproto', '--output', name, '--workers', '2',
                 *flags)
    assert result.returncode == 0, result.stderr + result.stdout
    with open(path(f'{name}/summary.json'), encoding='utf-8') as file:
        return json.load(file)


def write_table(name, rows, labels):
    with open(path(name), 'w', encoding='utf-8') as file:
        for row, label in zip(rows, labels):
            cells = [repr(float(cell)) for cell in row]
            file.write(','.join(cells + ([str(label)] if label is not None else []))
                       + '\n')


def write_images(folder, part, images, labels):
    os.makedirs(path(folder), exist_ok=True)
    with open(path(f'{folder}/{part}-images-idx3-ubyte'), 'wb') as file:
        file.write(struct.pack('>IIII', 0x803, *images.shape) + images.tobytes())
    with open(path(f'{folder}/{part}-labels-idx1-ubyte'), 'wb') as file:
        file.write(struct.pack('>II', 0x801, len(labels)) +
                   labels.astype(np.uint8).tobytes())


def png(pixels):
    """A PNG file of [height, width, 3] pixels."""
    def chunk(kind, data):
        return (struct.pack('>I', len(data)) + kind + data +
                struct.pack('>I', zlib.crc32(kind + data)))
    height, width, _ = pixels.shape
    rows = b''.join(b'\0' + row.tobytes() for row in pixels)
    return (b'\x89PNG\r\n\x1a\n' +
            chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def flip(name):
    """Changes a bit in the middle of a file."""
    with open(path(name), 'r+b') as file:
        middle = os.path.getsize(path(name)) // 4 * 3
        file.seek(middle)
        byte = file.read(1)[0]
        file.seek(middle)
        file.write(bytes([byte ^ 1]))


def write_file(name, content):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), 'wb') as file:
        file.write(content)


def read_weights(name):
    with open(path(f'{name}/final/model.safetensors'), 'rb') as file:
        size, = struct.unpack('<Q', file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    return {key: np.frombuffer(data[slice(*entry['data_offsets'])], np.float32)
                 .reshape(entry['shape']).astype(np.float64)
            for key, entry in header.items() if key != '__metadata__'}


def read_predictions(text):
    lines = text.strip().split('\n')
    return lines[0].split(','), np.array(
        [[float(cell) for cell in line.split(',')] for line in lines[1:]])


class InferenceTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(1)
        cls.rows = rng.normal(size=(600, 6))
        cls.labels = (cls.rows[:, 0] > 0).astype(int) + (cls.rows[:, 1] > 0)
        write_table('train.csv', cls.rows[:256], cls.labels[:256])
        write_table('test.csv', cls.rows[256:], cls.labels[256:])
        write_table('inputs.csv', cls.rows[256:], [None] * 344)
        cls.mlp = train('mlp', '''
            model { mlp { hidden: 16 hidden: 8 activation: RELU } }
            data { csv { train: "train.csv" test: "test.csv" } }
            evaluation { every_steps: 10 batch: 50 }''')

    def check_evaluation(self, name, summary):
        for threads in ('1', '2'):
            result = run('evaluate', name, '--json', '--threads', threads)
            self.assertEqual(result.returncode, 0, result.stderr)
            found = json.loads(result.stdout)
            # The same bits.
            self.assertEqual(found['loss'], summary['evaluation']['loss'])
            self.assertEqual(found['accuracy'],
                             summary['evaluation']['accuracy'])

    def check_error(self, words, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, '')
        self.assertEqual(result.stderr.count('\n'), 1, result.stderr)
        self.assertIn(words, result.stderr)

    def test_categories_and_standardized_numbers(self):
        rng = np.random.default_rng(2)
        sizes = rng.normal(loc=1000, scale=200, size=400)
        colors = rng.choice(['blue', 'dark; red', 'gr\u00fcn'], size=400)
        kinds = np.where((sizes > 1000) == (colors == 'blue'), 'cat', 'dog')
        def write(name, begin, end, label):
            with open(path(name), 'w', encoding='utf-8') as file:
                file.write('size;color' + (';kind\n' if label else '\n'))
                for i in range(begin, end):
                    file.write(f'{sizes[i]!r};"{colors[i]}"' +
                               (f';{kinds[i]}\n' if label else '\n'))
        write('pets.csv', 0, 256, True)
        write('more.csv', 256, 400, True)
        write('unlabeled.csv', 256, 400, False)
        summary = train('pets', '''
            model { mlp { hidden: 16 activation: RELU } }
            data { csv { train: "pets.csv" test: "more.csv" delimiter: ";"
                         category_column: 1 category_column: -1
                         standardize: true } }''')
        self.check_evaluation('pets', summary)
        os.remove(path('pets.csv'))
        result = run('predict', 'pets', '--data', 'unlabeled.csv',
                     '--probabilities')
        self.assertEqual(result.returncode, 0, result.stderr)
        labeled = run('predict', 'pets', '--data', 'more.csv',
                      '--probabilities')
        self.assertEqual(result.stdout, labeled.stdout)
        lines = [line.split(',') for line in result.stdout.strip().split('\n')]
        found = [line[0] for line in lines[1:]]
        self.assertEqual(set(found), {'"cat"', '"dog"'})
        order = np.unique(colors)
        with open(path('pets/final/data.json'), encoding='utf-8') as file:
            stored = json.load(file)
        self.assertEqual(stored['columns'][1]['categories'], list(order))
        self.assertEqual(stored['columns'][2]['categories'], ['cat', 'dog'])
        self.assertAlmostEqual(stored['columns'][0]['mean'],
                               sizes[:256].mean(), places=3)
        # Predictions agree with the evaluation during training.
        correct = np.mean([kind == name.strip('"') for kind, name in
                           zip(kinds[256:], found)])
        self.assertAlmostEqual(correct, summary['evaluation']['accuracy'])
        with open(path('strange.csv'), 'w', encoding='utf-8') as file:
            file.write('1000;pink\n')
        self.check_error('strange.csv:1: column 1 ', 'predict', 'pets',
                         '--data', 'strange.csv')
        self.check_error('train.csv: 1 column', 'predict', 'pets', '--data',
                         'train.csv')

    def test_classes_of_rows(self):
        self.check_evaluation('mlp', self.mlp)
        with_labels = run('predict', 'mlp', '--data', 'test.csv',
                          '--probabilities')
        self.assertEqual(with_labels.returncode, 0, with_labels.stderr)
        # Neither the training data nor labels are needed.
        os.rename(path('train.csv'), path('gone.csv'))
        result = run('predict', 'mlp', '--data', 'inputs.csv', '--probabilities',
                     '--out', 'out.csv', '--threads', '3')
        os.rename(path('gone.csv'), path('train.csv'))
        self.assertEqual((result.returncode, result.stdout), (0, ''),
                         result.stderr)
        with open(path('out.csv'), encoding='utf-8') as file:
            text = file.read()
        self.assertEqual(text, with_labels.stdout)
        heads, table = read_predictions(text)
        self.assertEqual(heads, ['class', 'probability_0', 'probability_1',
                                 'probability_2'])
        # The same network in float64.
        weights = read_weights('mlp')
        value = self.rows[256:]
        names = sorted(key[:-len('.bias')] for key in weights
                       if key.endswith('.bias'))
        for name in names:
            matrix = weights[name + '.weight']
            if matrix.shape[0] != len(weights[name + '.bias']):
                matrix = matrix.T
            value = value @ matrix.T + weights[name + '.bias']
            if name != names[-1]:
                value = np.maximum(value, 0)
        exponentials = np.exp(value - value.max(axis=1, keepdims=True))
        expected = exponentials / exponentials.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(table[:, 1:], expected, atol=2e-6)
        np.testing.assert_array_equal(table[:, 0], table[:, 1:].argmax(axis=1))
        # As many are right as in the run's evaluation.
        right = (table[:, 0] == self.labels[256:]).mean()
        self.assertAlmostEqual(right, self.mlp['evaluation']['accuracy'], 12)

    def test_values_of_rows(self):
        target = self.rows @ np.arange(6)
        write_table('train_values.csv', self.rows[:256], target[:256])
        write_table('test_values.csv', self.rows[256:], target[256:])
        summary = train('regression', '''
            model { mlp { hidden: 8 } loss: MEAN_SQUARED_ERROR }
            data { csv { train: "train_values.csv" test: "test_values.csv" } }''')
        result = run('predict', 'regression', '--data', 'test_values.csv')
        heads, table = read_predictions(result.stdout)
        self.assertEqual(heads, ['value'])
        error = ((table[:, 0] - target[256:])**2).mean()
        self.assertAlmostEqual(error / summary['evaluation']['loss'], 1, 5)
        self.check_error('--probabilities: ', 'predict', 'regression', '--data',
                         'test_values.csv', '--probabilities')

    def test_images(self):
        rng = np.random.default_rng(2)
        labels = rng.integers(0, 4, 400)
        images = rng.integers(0, 60, (400, 12, 12)).astype(np.uint8)
        for image, label in zip(images, labels):
            image[3 * label:3 * label + 3] += 150
        write_images('images', 'train', images[:256], labels[:256])
        write_images('images', 't10k', images[256:], labels[256:])
        data = 'data { idx { directory: "images" classes: 4 mean: 0.2 deviation: 0.3 } }'
        for model in ('cnn {}', 'resnet { layers: 1 layers: 1 width: 8 }'):
            name = model.split()[0]
            summary = train(name, f'model {{ {model} }}\n{data}')
            self.check_evaluation(name, summary)
            with open(path('images/t10k-images-idx3-ubyte'), 'rb') as file:
                with gzip.open(path('new.gz'), 'wb') as packed:
                    packed.write(file.read())
            result = run('predict', name, '--data', 'new.gz')
            self.assertEqual(result.returncode, 0, result.stderr)
            _, table = read_predictions(result.stdout)
            self.assertAlmostEqual((table[:, 0] == labels[256:]).mean(),
                                   summary['evaluation']['accuracy'], 12)
        write_images('small', 't10k', images[:5, :8], labels[:5])
        self.check_error('output', 'predict', 'cnn', '--data',
                         'small/t10k-images-idx3-ubyte')

    def read_table(self, *arguments):
        result = run('predict', *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return list(csv.DictReader(io.StringIO(result.stdout)))

    def assert_close(self, row, expected):
        """The number of samples that are computed at once affects rounding."""
        self.assertEqual(row['class'], expected['class'])
        for column in ('probability_0', 'probability_1', 'probability_2'):
            self.assertAlmostEqual(float(row[column]), float(expected[column]), 5)

    def test_pictures(self):
        rng = np.random.default_rng(3)
        names = ['a "ray"', 'cod', 'eel']
        labels = rng.integers(0, 3, 120)
        images = rng.integers(0, 90, (120, 8, 8, 3)).astype(np.uint8)
        images[np.arange(120), :, :, labels] += 120
        for i, (image, label) in enumerate(zip(images, labels)):
            part = 'train' if i < 90 else 'test'
            write_file(f'fish/{part}/{names[label]}/{i:03}.png', png(image))
            if part == 'test':
                write_file(f'new/lake {i % 2}/{i:03}.png', png(image))
        write_file('new/.hidden', b'')
        np.save(path('new.npy'), images[90:])
        with tarfile.open(path('new.tar'), 'w') as tar:
            tar.add(path('new/lake 1'), 'lake')
        for size in ('', 'height: 6 width: 6 resize: 7'):
            name = 'fish6' if size else 'fish8'
            summary = train(name, f"""
                model {{ cnn {{ block {{ channels: 4 }} }} }}
                data {{ images {{ train: "fish/train" test: "fish/test"
                                 mean: 0.4 deviation: 0.2 {size} }} }}""")
            self.check_evaluation(name, summary)
            table = self.read_table(name, '--data', 'new', '--probabilities')
            self.assertEqual(len(table), 30)
            by_name = {row.pop('name'): row for row in table}
            self.assertEqual(list(by_name), sorted(
                f'lake {i % 2}/{i:03}.png' for i in range(90, 120)))
            right = [by_name[f'lake {i % 2}/{i:03}.png']['class'] == names[labels[i]]
                     for i in range(90, 120)]
            self.assertAlmostEqual(np.mean(right),
                                   summary['evaluation']['accuracy'], 12)
            # The same pictures, stored otherwise.
            rows = self.read_table(name, '--data', 'new.npy', '--probabilities')
            self.assertEqual(rows, [by_name[f'lake {i % 2}/{i:03}.png']
                                    for i in range(90, 120)])
            rows = self.read_table(name, '--data', 'new.tar', '--probabilities')
            self.assertEqual(len(rows), 15)
            for row in rows:
                name_in_folder = row.pop('name').replace('lake', 'lake 1')
                self.assert_close(row, by_name[name_in_folder])
            row, = self.read_table(name, '--data', 'new/lake 1/091.png',
                                   '--probabilities')
            self.assertEqual(row.pop('name'), 'new/lake 1/091.png')
            self.assert_close(row, by_name['lake 1/091.png'])
        write_file('large/1.png', png(np.zeros((9, 8, 3), np.uint8)))
        self.check_error('large/1.png: has 9 x 8 pixels', 'predict', 'fish8',
                         '--data', 'large')
        self.assertEqual(len(self.read_table('fish6', '--data', 'large')), 1)
        write_file('bad/1.png', png(images[0])[:60])
        self.check_error('bad/1.png: ', 'predict', 'fish8', '--data', 'bad')
        write_file('notes/1.txt', b'')
        self.check_error('.jpg, .jpeg or .png', 'predict', 'fish8', '--data',
                         'notes')
        os.makedirs(path('empty'))
        for missing in ('empty', 'nowhere'):
            self.check_error(missing + ': ', 'predict', 'fish8', '--data', missing)
        write_file('fish8/final/data.json', b'{"format": "tributary-pictures-1"}')
        self.check_error('data.images is damaged: `height` ', 'predict', 'fish8',
                         '--data', 'new')

    def test_models_of_divided_jobs(self):
        for name, field in (('staged', 'parallel.pipeline={ stages: 2 }'),
                            ('sharded', 'parallel.sharded_weights=true')):
            summary = train(name, """
                model { mlp { hidden: 16 hidden: 8 activation: RELU } }
                data { csv { train: "train.csv" test: "test.csv" } }
                evaluation { every_steps: 10 batch: 50 }""", '--set', field)
            self.assertEqual(summary['weights_sha256'],
                             self.mlp['weights_sha256'])
            self.check_evaluation(name, summary)

    def test_average(self):
        summary = train('averaged', """
            model { mlp { hidden: 8 } }
            data { csv { train: "train.csv" test: "test.csv" } }""",
            '--set', 'optimizer.average_decay=0.9')
        losses = {}
        for flag in ([], ['--average']):
            result = run('evaluate', 'averaged', '--json', *flag)
            self.assertEqual(result.returncode, 0, result.stderr)
            losses[bool(flag)] = json.loads(result.stdout)['loss']
        self.assertEqual(losses[False], summary['evaluation']['loss'])
        self.assertNotEqual(losses[True], losses[False])
        # predict computes the evaluation's outputs.
        result = run('predict', 'averaged', '--data', 'test.csv',
                     '--probabilities', '--average')
        self.assertEqual(result.returncode, 0, result.stderr)
        _, table = read_predictions(result.stdout)
        labels = self.labels[256:]
        loss = -np.log(table[np.arange(len(labels)), 1 + labels]).mean()
        self.assertAlmostEqual(loss / losses[True], 1, 5)
        result = run('export', 'averaged', '--average', '--format', 'safetensors',
                     '--output', 'exported')
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(path('averaged/final/average.safetensors'), 'rb') as stored:
            with open(path('exported/model.safetensors'), 'rb') as exported:
                self.assertEqual(exported.read(), stored.read())
        for command in (['evaluate', 'mlp'],
                        ['predict', 'mlp', '--data', 'test.csv'],
                        ['export', 'mlp', '--format', 'safetensors', '--output',
                         'mlp_exported']):
            self.check_error('optimizer.average_decay', *command, '--average')

    def test_text(self):
        with open(path('text.txt'), 'w', encoding='utf-8') as file:
            file.write('the cat sat on the mat. ' * 200)
        summary = train('gpt', '''
            model { gpt { layers: 1 heads: 2 width: 16 context: 16 } }
            data { text { path: "text.txt" } }
            evaluation { batch: 16 }''')
        self.check_evaluation('gpt', summary)
        result = run('evaluate', 'gpt')
        self.assertRegex(result.stdout, r'^loss \d\.\d{4}, accuracy \d+\.\d\d %, '
                                        r'perplexity \d+\.\d{3} \(\d+ tokens\)\n$')
        # Other weights and other data.
        other = run('evaluate', 'gpt', '--weights', 'gpt/final/model.safetensors',
                    '--set', 'data.text.validation_fraction=0.5', '--json')
        self.assertGreater(json.loads(other.stdout)['samples'], 2000)
        self.check_error('data.csv', 'predict', 'gpt', '--data', 'text.txt')

    def test_damaged_weights(self):
        with open(path('words.txt'), 'w', encoding='utf-8') as file:
            file.write('the dog ran from the cat. ' * 200)
        train('whole', '''
            model { gpt { layers: 1 heads: 2 width: 16 context: 16 } }
            data { text { path: "words.txt" } }''',
            '--set', 'optimizer.average_decay=0.9')
        export = ('--format', 'safetensors', '--output', 'never')
        for file, commands in (
                ('whole/final/model.safetensors',
                 [['evaluate', 'whole'], ['sample', 'whole'],
                  ['export', 'whole', *export],
                  ['evaluate', 'gpt2', '--weights', 'whole'],
                  ['train', 'whole.textproto', '--output', 'tuned', '--set',
                   'model.initial_weights.path=whole']]),
                ('whole/final/average.safetensors',
                 [['evaluate', 'whole', '--average'], ['sample', 'whole', '--average'],
                  ['export', 'whole', '--average', *export]]),
                ('mlp/final/model.safetensors',
                 [['predict', 'mlp', '--data', 'test.csv']])):
            if 'gpt2' not in os.listdir(FOLDER):
                shutil.copytree(path('whole'), path('gpt2'))
            flip(file)
            for command in commands:
                result = run(*command)
                self.assertEqual(result.returncode, 2, (command, result.stderr))
                self.assertEqual(result.stdout, '')
                errors = [line for line in result.stderr.splitlines()
                          if line.startswith('error: ')]
                self.assertEqual(len(errors), 1, result.stderr)
                self.assertIn(os.path.basename(file), errors[0])
                self.assertIn('damaged', errors[0])
            result = run('checkpoint', 'verify', file.split('/')[0])
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn(file + ': ', result.stdout)
            flip(file)
        self.assertEqual(run('checkpoint', 'verify', 'whole').returncode, 0)

    def test_trained_models_need_no_gradients_and_no_optimizer(self):
        rows = np.random.default_rng(5).normal(size=(64, 32))
        for name in ('wide.train.csv', 'wide.test.csv'):
            write_table(name, rows, (rows.sum(axis=1) > 0).astype(int))
        train('wide', 'name: "wide"\nmodel { mlp { hidden: 2048 hidden: 2048 } }\n'
              'data { csv { train: "wide.train.csv" test: "wide.test.csv" } }\n')
        train('writer', 'name: "writer"\nmodel { gpt { width: 512 heads: 4 layers: 2 } }\n'
              'data { text { path: "wide.train.csv" } }\n')
        write_table('wide.csv', rows, [None] * len(rows))
        programs = peak_memory('devices')
        for run_folder, commands in {
                'wide': [('evaluate', 'wide'), ('predict', 'wide', '--data', 'wide.csv')],
                'writer': [('sample', 'writer', '--prompt', '1', '--bytes', '10')]}.items():
            weights = sum(array.nbytes for array in read_weights(run_folder).values())
            self.assertGreater(weights, 10e6)
            for command in commands:
                with self.subTest(command):
                    # The weights, and their file while it is read. A gradient and the
                    # optimizer's state would be three times as much again.
                    self.assertLess(peak_memory(*command) - programs, 3 * weights)

    def test_wrong_inputs(self):
        with open(path('narrow.csv'), 'w', encoding='utf-8') as file:
            file.write('1,2,3\n')
        with open(path('text.csv'), 'w', encoding='utf-8') as file:
            file.write('1,2,3,4,5,6\n1,2,x,4,5,6\n')
        open(path('empty.csv'), 'w', encoding='utf-8').close()
        predict = ('predict', 'mlp', '--data')
        for words in ('narrow.csv: 3 columns', 'text.csv:2: column 2 ', 'empty.csv',
                      'nothing.csv'):
            self.check_error(words, *predict, words.split(':')[0])
        self.check_error('--data', 'predict', 'mlp')
        self.check_error('pass the folder of a run', 'predict', 'nothing',
                         '--data', 'inputs.csv')
        self.check_error('pass the folder of a run', 'evaluate', 'nothing')
        os.rename(path('mlp/final'), path('mlp/away'))
        self.check_error('no final model', *predict, 'inputs.csv')
        os.rename(path('mlp/away'), path('mlp/final'))


unittest.main(argv=sys.argv[:1])
