"""The console script `tributary`: the program of the wheel."""

from __future__ import annotations

import json
import os
import sys

from . import _native
from .launch import ARGUMENTS


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == 'train' and sys.argv[2].endswith('.py'):
        # The program describes its job; see `launch`.
        os.environ[ARGUMENTS] = json.dumps(sys.argv[3:])
        os.execv(sys.executable, [sys.executable, sys.argv[2]])
    program = _native.program()
    os.execv(program, ['tributary', *sys.argv[1:]])
