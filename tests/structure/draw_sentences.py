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
         "proto/PROTOCOL.md", "docs/*.md", "docs/internals/*.md"]
RULE = re.compile(r"[| :-]+$")  # Between a table's header and its rows.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[])")


def comments(path):
    """Yields (line number, text) of each comment with its declaration."""
    block, start = [], 0
    lines = [line.strip() for line in path.read_text().splitlines()]
    for number, text in enumerate(lines):
        if text.startswith("//"):
            start = start if block else number + 1
            block.append(text)
            continue
        is_heading = len(block) == 1 and block[0].startswith("// ----")
        if block and text and not text.startswith("#") and not is_heading:
            end = number + 1
            while not lines[end - 1].endswith((";", "{", ",", "}")):
                end += 1
            yield start, "\n".join(block + lines[number:end])
        block = []


def sentences(path):
    """Yields (line number, text) of each sentence, and of each table row with
    the table's header."""
    lines, start, in_code, header = [], 0, False, ""
    page = path.read_text().splitlines() + ["", ""]
    for number, (line, following) in enumerate(zip(page, page[1:]), 1):
        text = line.strip()
        if text.startswith("```"):
            in_code = not in_code
        if in_code:
            text = ""
        if lines and (not text or re.match(r"[|#`]{1,3} |- |\d+\. ", text)):
            for sentence in SENTENCE_END.split(" ".join(lines)):
                if len(sentence.split()) > 4:
                    yield start, sentence
            lines = []
        if text.startswith("|") and RULE.match(following):
            header = text
        elif text.startswith("|") and not RULE.match(text):
            yield number, header + "\n" + text
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
