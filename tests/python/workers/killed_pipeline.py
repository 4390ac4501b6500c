"""The example pipeline.py. Worker 1, a group of processes, is killed once in the middle of
a step."""

import os
import signal
import sys

sys.path.insert(0, os.environ['EXAMPLES'])

import pipeline  # noqa: E402
import stages  # noqa: E402


class KilledStage(stages.Stage):
    calls = 0

    def pass_gradients(self, gradients):
        self.calls += 1
        marker = os.environ['MARKER']
        if os.environ['TRIBUTARY_RANK'] == '1' and self.rank == 1 and self.calls == 20 \
                and not os.path.exists(marker):
            with open(marker, 'w', encoding='utf-8'):
                # torchrun, and then all that it has started.
                os.kill(os.getppid(), signal.SIGKILL)
                os.killpg(0, signal.SIGKILL)
        super().pass_gradients(gradients)


if __name__ == '__main__':
    pipeline.Stage = KilledStage
    pipeline.main()
