"""Tests that a bert is trained on texts, and that its run can be used.

    bert_test.py TRIBUTARY
"""
import json
import math
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TRIBUTARY = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp(dir=os.environ.get('TEST_TMPDIR'))
GOOD, BAD = 'good fine great nice'.split(), 'bad poor awful sad'.split()
WORDS = 'the a film book was is this that and but'.split()
SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
BERT = '''
model { bert { layers: 1 heads: 2 width: 16 context: 12 positions: 16 vocabulary: 23
               dropout: 0.1 %s } %s }
optimizer { adamw { learning_rate: 0.01 } }
output { tensorboard: false log_every_steps: 1 }
checkpoint { every_steps: 5 }
batch { global: 16 micro_batches: 4 }
'''
CLASSIFIER = '''
data { labeled_text { train: "train.csv" test: "test.tsv" tokenizer: "vocab.txt" } }
'''


def path(name):
    return os.path.join(FOLDER, name)


def write(name, text):
    with open(path(name), 'w', encoding='utf-8', newline='') as file:
        file.write(text)


def run(*arguments):
    return subprocess.run([TRIBUTARY, *arguments], text=True, check=False,
                          capture_output=True, cwd=FOLDER)


def summary(name):
    with open(path(f'{name}/summary.json'), encoding='utf-8') as file:
        return json.load(file)


def train(name, job, *flags):
    write(name + '.textproto', job)
    result = run('train', name + '.textproto', '--output', name, *flags)
    assert result.returncode == 0, result.stderr + result.stdout
    return summary(name)


def tensors(file):
    with open(path(file), 'rb') as opened:
        size, = struct.unpack('<Q', opened.read(8))
        header = json.loads(opened.read(size))
        data = opened.read()
    return {name: data[slice(*entry['data_offsets'])]
            for name, entry in header.items() if name != '__metadata__'}


def sentences(count, seed):
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.choice(['yes, "good"', 'no'])
        words = draw.choices(WORDS, k=draw.randrange(1, 9))
        words.insert(draw.randrange(len(words) + 1),
                     draw.choice(GOOD if label != 'no' else BAD))
        rows.append((' '.join(words), label))
    return rows


def table(rows, delimiter):
    lines = [('text', 'label')] + rows
    return ''.join(delimiter.join('"' + cell.replace('"', '""') + '"' for cell in line) + '\r\n'
                   for line in lines)


class BertTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        write('vocab.txt', ''.join(word + '\n' for word in SPECIAL + WORDS + GOOD + BAD))
        cls.test = sentences(64, seed=2)
        write('train.csv', table(sentences(256, seed=1), ','))
        write('test.tsv', table(cls.test, '\t'))
        write('book.txt', ' '.join(text for text, _ in sentences(400, seed=3)))
        cls.language = BERT % ('', '') + '''
            data { text { path: "book.txt" tokenizer: "vocab.txt" } } steps: 12'''
        cls.classifier = BERT % ('head: SEQUENCE_CLASSIFICATION', '') + CLASSIFIER + 'epochs: 8'
        cls.language_summary = train('language', cls.language, '--workers', '1')
        cls.classifier_summary = train('classifier', cls.classifier, '--workers', '2')

    def check_error(self, words, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count('\n'), 1, result.stderr)
        self.assertIn(words, result.stderr)

    def test_losses_are_means_over_the_predicted_tokens(self):
        with open(path('language/metrics.jsonl'), encoding='utf-8') as file:
            losses = [line['loss'] for line in map(json.loads, file) if 'loss' in line]
        # At first, all 23 tokens of the vocabulary are about equally likely.
        self.assertAlmostEqual(losses[0], math.log(23), delta=0.3)

    def test_numbers_of_workers_do_not_change_the_weights(self):
        for workers in ('2', '4'):
            other = train('language' + workers, self.language, '--workers', workers)
            self.assertEqual(other['weights_sha256'], self.language_summary['weights_sha256'])
            self.assertEqual(other['evaluation']['loss'],
                             self.language_summary['evaluation']['loss'])

    def test_a_killed_job_resumes_with_the_same_weights(self):
        write('killed.textproto', self.language)
        # More steps than it computes until it is killed.
        command = [TRIBUTARY, 'train', 'killed.textproto', '--output', 'killed', '--workers', '2',
                   '--steps', '1000000']
        with subprocess.Popen(command, cwd=FOLDER, start_new_session=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            latest = path('killed/checkpoints/latest')
            while process.poll() is None and not os.path.exists(latest):
                time.sleep(0.002)
            os.killpg(process.pid, signal.SIGKILL)
        with open(latest, encoding='utf-8') as file:
            steps = str(int(file.read().strip()[len('step-'):]) + 7)
        result = run('train', 'killed.textproto', '--output', 'killed', '--workers', '1',
                     '--resume', 'auto', '--steps', steps)
        self.assertEqual(result.returncode, 0, result.stderr)
        undisturbed = self.language_summary if steps == '12' else \
            train('undisturbed', self.language, '--workers', '1', '--steps', steps)
        self.assertEqual(summary('killed')['weights_sha256'], undisturbed['weights_sha256'])

    def test_token_files_have_the_samples_of_the_text(self):
        result = run('tokenize', 'book.txt', '--tokenizer', 'vocab.txt', '--output', 'book.bin')
        self.assertEqual(result.returncode, 0, result.stderr)
        tokens = train('tokens', BERT % ('', '') + '''
            data { tokens { path: "book.bin" tokenizer: "vocab.txt" } } steps: 12''')
        self.assertEqual(tokens['weights_sha256'], self.language_summary['weights_sha256'])

    def test_evaluate_computes_the_bits_of_the_training_run(self):
        for name, expected in (('language', self.language_summary),
                               ('classifier', self.classifier_summary)):
            result = run('evaluate', name, '--json', '--threads', '2')
            self.assertEqual(result.returncode, 0, result.stderr)
            found = json.loads(result.stdout)
            self.assertEqual(found['loss'], expected['evaluation']['loss'])
            self.assertEqual('perplexity' in found, name == 'language')

    def test_predict_classifies_texts(self):
        self.assertGreater(self.classifier_summary['evaluation']['accuracy'], 0.9)
        # What the run has learned from these files is stored with it.
        for name in ('vocab.txt', 'train.csv'):
            os.rename(path(name), path(name) + '.gone')
        try:
            labeled = run('predict', 'classifier', '--data', 'test.tsv')
            write('unlabeled.csv', 'text\n' + ''.join(f'"{text}"\n' for text, _ in self.test))
            unlabeled = run('predict', 'classifier', '--data', 'unlabeled.csv')
            write('lines.txt', ''.join(text + '\n' for text, _ in self.test))
            lines = run('predict', 'classifier', '--data', 'lines.txt', '--threads', '1')
        finally:
            for name in ('vocab.txt', 'train.csv'):
                os.rename(path(name) + '.gone', path(name))
        self.assertEqual(labeled.returncode, 0, labeled.stderr)
        self.assertEqual(unlabeled.stdout, labeled.stdout, unlabeled.stderr)
        self.assertEqual(lines.stdout, labeled.stdout, lines.stderr)
        names = [line[1:-1].replace('""', '"') for line in labeled.stdout.splitlines()[1:]]
        right = sum(name == label for name, (_, label) in zip(names, self.test))
        self.assertEqual(right / len(self.test),
                         self.classifier_summary['evaluation']['accuracy'])

    def test_other_commands_say_why_they_refuse(self):
        self.check_error('the model is bert; only gpt models generate text', 'sample', 'language')
        self.check_error('predict needs a classifier', 'predict', 'language', '--data', 'test.tsv')
        write('other.csv', 'sentence,label\nx,no\n')
        self.check_error('other.csv:1: there is no column "text"', 'predict', 'classifier',
                         '--data', 'other.csv')
        os.remove(path('test.tsv'))
        self.check_error('test.tsv: cannot open', 'evaluate', 'classifier')
        write('test.tsv', table(self.test, '\t'))
        result = run('train', 'classifier.textproto', '--output', 'refused', '--set',
                     'data.labeled_text.train=other.csv')
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn('other.csv:1: there is no column "text"', result.stderr)

    def test_begins_with_a_folder_and_freezes_parameters(self):
        result = run('export', 'language', '--format', 'huggingface', '--output', 'folder')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(os.path.exists(path('folder/tokenizer.json')))
        job = BERT % ('head: SEQUENCE_CLASSIFICATION', '''
            initial_weights { path: "folder" strict: false freeze: "bert.e*" }''')
        job += CLASSIFIER.replace('vocab.txt', 'folder') + 'epochs: 1'
        train('frozen', job, '--workers', '2')
        before = tensors('folder/model.safetensors')
        after = tensors('frozen/final/model.safetensors')
        encoder = [name for name in before if name.startswith('bert.e')]
        self.assertGreater(len(encoder), 10)
        for name in encoder:
            self.assertEqual(before[name], after[name], name)
        result = run('export', 'frozen', '--format', 'huggingface', '--output', 'again')
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(path('again/config.json'), encoding='utf-8') as file:
            config = json.load(file)
        self.assertEqual(config['id2label'], {'0': 'no', '1': 'yes, "good"'})
        for name in ('vocab.txt', 'tokenizer.json'):
            with open(path('folder/' + name), 'rb') as one, open(path('again/' + name), 'rb') as two:
                self.assertEqual(one.read(), two.read())


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
