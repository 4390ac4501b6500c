#!/usr/bin/env python3
"""Makes the golden files of tokenizer_golden_test.

Trains two tiny vocabularies with PyPI's tokenizers (pip install tokenizers) on
a generated text of mixed Unicode, and writes to golden/ the text, the
vocabularies and the ids that PyPI's tokenizers returns. The characters are of
Unicode 8, because libraries differ in the classes of later ones.
"""
import os
import random

from tokenizers import Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, trainers

WORDS = ("the of and to in is that for it was with be by on not he his but at "
         "are this have from or had they which one you were all there would "
         "their we him been has when who will more if out so said what up "
         "about into than them can only other new some could time these two "
         "may then do first any like our over even most made after also did "
         "before must through années Größe ÉCOLE İstanbul").split()
ENDS = [" ", ", ", ". ", "'s ", "'ll ", "'t", "\n", "\n\n", "  ", " \n ", "\t"]
SPACES = [" ", "\n", "\t", "\u3000", "\u00a0", "\r\n", "\u2028", "\x85", "\x0b"]
BLOCKS = [(0x20, 0x7f), (0xa1, 0x250), (0x391, 0x3aa), (0x410, 0x450),
          (0x5d0, 0x5eb), (0x905, 0x93a), (0x300, 0x340), (0x3041, 0x3097),
          (0x4e00, 0x9fa6), (0xac00, 0xd7a4), (0x1f600, 0x1f640)]


def mixed_text(count):
    draw = random.Random(20)
    parts = []
    for _ in range(count):
        kind = draw.random()
        if kind < 0.6:
            parts.append(draw.choice(WORDS) + draw.choice(ENDS))
        elif kind < 0.7:
            parts.append(str(draw.randrange(10**draw.randrange(1, 9))) + " ")
        elif kind < 0.95:
            block = draw.choice(BLOCKS)
            parts.append("".join(
                chr(draw.randrange(*block)) for _ in range(draw.randrange(1, 8))))
            parts.append(draw.choice(["", " "]))
        elif kind < 0.97:
            parts.append(draw.choice("=-aé") * draw.randrange(1, 120))
        else:
            parts.append(draw.choice(SPACES) * draw.randrange(1, 6))
    return "".join(parts)


def write(tokenizer, name, text, folder):
    tokenizer.save(os.path.join(folder, name + ".json"), pretty=False)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    with open(os.path.join(folder, name + ".ids"), "w") as file:
        file.write("".join(f"{i}\n" for i in ids))


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
    text = mixed_text(1500)
    with open(os.path.join(folder, "text"), "w", newline="",
              encoding="utf-8") as file:
        file.write(text)

    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    pairs.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=500, show_progress=False, special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    write(pairs, "byte_pairs", text, folder)

    pieces = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    pieces.normalizer = normalizers.BertNormalizer()
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.train_from_iterator([text], trainers.WordPieceTrainer(
        vocab_size=400, limit_alphabet=150, show_progress=False,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    write(pieces, "word_pieces", text, folder)


if __name__ == "__main__":
    main()
