#!/usr/bin/env python3
"""Prints random comments of headers and sentences of pages, to be
judged by readers who do not know this project.

usage: tests/structure/draw_sentences.py [--seed SEED] [--count COUNT]
"""
import argparse
import pathlib
import random
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md",
         "proto/PROTOCOL.md", "docs/*.md"]
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[])")


def comments(path):
    """Yields (line number, text) of each comment above a declaration."""
    block, start = [], 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.strip()
        if text.startswith("//"):
            start = start if block else number
            block.append(text)
            continue
        if block and text and not text.startswith("#"):
            yield start, "\n".join(block + [text])
        block = []


def sentences(path):
    """Yields (line number, text) of each sentence or table row."""
    lines, start, in_code = [], 0, False
    for number, line in enumerate(path.read_text().splitlines() + [""], 1):
        text = line.strip()
        if text.startswith("```"):
            in_code = not in_code
        if in_code:
            text = ""
        if lines and (not text or re.match(r"[|#`]{1,3} |- |\d+\. ", text)):
            for sentence in SENTENCE_END.split(" ".join(lines)):
                yield start, sentence
            lines = []
        if text.startswith("|") and not re.match(r"[| :-]+$", text):
            yield number, text
        elif text and not text.startswith(("|", "#", "```")):
            start = start if lines else number
            lines.append(re.sub(r"^(- |\d+\. )", "", text))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--count", type=int, default=20,
                        help="comments, and as many sentences")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    headers = [(path, number, text)
               for folder in ("common", "deploy", "server", "worker")
               for path in sorted((ROOT / folder).rglob("*.h"))
               for number, text in comments(path)]
    pages = [(path, number, text)
             for page in PAGES for path in sorted(ROOT.glob(page))
             for number, text in sentences(path)]
    for found in headers, pages:
        for path, number, text in generator.sample(
                found, min(arguments.count, len(found))):
            print(f"{path.relative_to(ROOT)}:{number}\n{text}\n")


if __name__ == "__main__":
    main()
