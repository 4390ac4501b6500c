"""The exceptions of the package."""

from __future__ import annotations

from typing import Any

# Numbers of absl::StatusCode and gRPC, which the native library reports.
OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
NOT_FOUND = 5
FAILED_PRECONDITION = 9
OUT_OF_RANGE = 11

# The exit code of a program whose restart would fail for the same reason.
INVALID_USAGE = 2


class Error(Exception):
    """An error of a job, of its servers, or of the program that uses the package.

    The message is one line that says what is wrong and what to do. If the
    program does not catch the error, `connect` makes Python print this line
    instead of a traceback, and `tributary train` shows it as the job's error.

    Attributes:
        code: the number of the status, as in gRPC.
        exit_code: the exit code of the process: 0 if the job is already done, 2
            if a restart would fail for the same reason, 75 if the worker was
            stopped, otherwise 1.
    """

    def __init__(self, message: str, code: int = INVALID_ARGUMENT):
        super().__init__(message)
        self.code = code
        if code == CANCELLED:
            self.exit_code = 75
        elif code == OUT_OF_RANGE:
            self.exit_code = 0
        elif code in (INVALID_ARGUMENT, NOT_FOUND):
            self.exit_code = INVALID_USAGE
        else:
            self.exit_code = 1


class Stopped(Error):
    """The job or this worker was stopped, for example by SIGTERM."""

    def __init__(self, message: str):
        super().__init__(message, CANCELLED)


class JobFailed(Error):
    """`tributary.train` has failed.

    Attributes:
        exit_code: that of the program; docs/fault-tolerance.md lists them.
    """

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        # Ray and pools of processes send exceptions to other processes.
        return type(self), (str(self), self.exit_code)
