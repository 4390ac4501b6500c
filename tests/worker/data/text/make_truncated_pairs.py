#!/usr/bin/env python3
"""Writes golden/truncated_pairs.txt: how Hugging Face's tokenizers truncates pairs of texts.

Each line has the tokens of the first and of the second text, the maximum length of the sample with
its three special tokens, and the tokens of both texts that are left. Needs tokenizers (PyPI).
"""
import os

from tokenizers import Tokenizer, models, pre_tokenizers, processors

tokenizer = Tokenizer(models.WordPiece({'[UNK]': 0, '[CLS]': 1, '[SEP]': 2, 'a': 3}))
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.post_processor = processors.BertProcessing(('[SEP]', 2), ('[CLS]', 1))
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'golden')
with open(os.path.join(folder, 'truncated_pairs.txt'), 'w') as file:
    # The shortest, and rooms for an odd and an even number of tokens.
    for most in (5, 8, 9):
        tokenizer.enable_truncation(most, strategy='longest_first')
        for first in range(1, 10):
            for second in range(1, 10):
                encoding = tokenizer.encode(' '.join('a' * first), ' '.join('a' * second))
                types = encoding.type_ids
                file.write(f'{first} {second} {most} {types.count(0) - 2} {types.count(1) - 1}\n')
