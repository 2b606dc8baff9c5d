"""Run a process that answers lines of JSON and ends together with its workers: both sides of the protocol."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_CLOSE_SECONDS_MAX = 5.0


class PeerError(RuntimeError):
    """A process raised an error, ended, or does not answer; the message says which."""


class FarProcess:
    """A process that receives one request at a time.

    Args:
        command: The command line that starts the process.
        environment: Variables that are added to the environment of this process.

    Attributes:
        folder: The process's own folder for temporary files, which is deleted when the process ends.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._owned = TemporaryDirectory(prefix="gpu-aug-peer-", ignore_cleanup_errors=True)
        self.folder = Path(self._owned.name)
        with (self.folder / "errors.log").open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                start_new_session=True,  # a new session, so that its workers can be ended with it
                env={**os.environ, "TMPDIR": str(self.folder), **environment},
            )

    def ask(self, question: Mapping[str, object], seconds_max: float) -> dict[str, Any]:
        """Write a request, wait for the answer, and return it.

        Raises:
            PeerError: The process has ended, or does not answer in time.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):  # the process has ended, which is reported below
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], seconds_max)
        if not ready:
            raise PeerError(f"no answer within {seconds_max:.0f} s")
        line = process.stdout.readline()
        if not line:
            raise PeerError(f"its process ended with {process.wait()}{self._uncaught()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process and its workers."""
        process = self._process
        with contextlib.suppress(OSError):  # it has ended already
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSE_SECONDS_MAX)
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in filter(None, (process.stdin, process.stdout)):
            with contextlib.suppress(OSError):  # a question that it ended without reading
                stream.close()
        self._owned.cleanup()

    def _uncaught(self) -> str:
        """Return ": " and the last line of the traceback that ended the process; "" if Python printed no traceback."""
        printed = (self.folder / "errors.log").read_text(errors="replace").strip()
        return f": {printed.splitlines()[-1]}" if "Traceback (most recent" in printed else ""


def answer_questions(answer: Callable[[dict[str, Any]], Mapping[str, object]]) -> None:
    """Read questions from standard input, one JSON object a line, and write each answer to standard output.

    This process and its workers end when the input ends.
    """
    # Libraries print to standard output: that goes to standard error, and answers use the original standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
    if os.getpgrp() == os.getpid():  # the leader of a process group, which includes its workers
        os.killpg(0, signal.SIGKILL)  # some workers outlive their parent
    os._exit(0)  # a thread that does not end must not keep the process alive
