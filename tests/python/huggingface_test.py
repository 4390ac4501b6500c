"""The example bert.py, with a small model."""

import importlib.util
import os
import re
import sys
import unittest

import support

WORKER = os.path.join(support.EXAMPLES, 'bert.py')


@unittest.skipUnless(support.has_torch() and importlib.util.find_spec('transformers'),
                     'needs PyTorch and the package transformers')
class BertTest(support.JobTest):

    def make_model(self):
        """Writes a BERT with random weights, which knows the words of the example."""
        sys.path.insert(0, support.EXAMPLES)
        import bert
        import torch
        import transformers
        folder = os.path.join(self.folder, 'model')
        os.mkdir(folder)
        texts, _ = bert.sentences(0, 12)
        words = sorted(set(re.findall(r'\w+|[.]', ' '.join(texts).lower())))
        vocabulary = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *words]
        path = os.path.join(folder, 'vocab.txt')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('\n'.join(vocabulary))
        transformers.BertTokenizer(path).save_pretrained(folder)
        torch.manual_seed(3)
        transformers.BertModel(transformers.BertConfig(
            vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2,
            num_attention_heads=2, intermediate_size=64)).save_pretrained(folder)
        return folder

    def test_a_small_bert_has_the_same_bits_with_one_and_two_workers(self):
        with open(os.path.join(support.EXAMPLES, 'bert.textproto'),
                  encoding='utf-8') as file:
            text = file.read().replace('all-MiniLM-L6-v2', self.make_model())
        job = self.write_job('job', text)
        one = self.train('one', job, WORKER)
        self.assertEqual(one['status'], 'done')
        two = self.train('two', job, WORKER, 2)
        self.assertEqual(one['weights_sha256'], two['weights_sha256'])
        self.assertEqual(one['evaluation'], two['evaluation'])


if __name__ == '__main__':
    unittest.main()
