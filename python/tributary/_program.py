"""The console script `tributary`: the program of the wheel."""

from __future__ import annotations

import os
import sys

from . import _native


def main() -> None:
    program = _native.program()
    os.execv(program, ['tributary', *sys.argv[1:]])
