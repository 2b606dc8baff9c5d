"""Running a DALI pipeline by pushing batches into it."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

Inputs = Mapping[str, Any]
"""The batch of each input of the pipeline, by the name of the input."""

Outputs = Sequence[Any] | None
"""The outputs of the pipeline for a batch, a TensorList each; None if DALI refused the batch."""


class Driver:
    """A built DALI pipeline; one push is one run, and outputs come in the order of the pushes.

    Args:
        pipeline: The pipeline, with DALI's default executor.
        depth: Its prefetch_queue_depth.
    """

    def __init__(self, pipeline: Any, depth: int) -> None:
        self.refusal = ""  # the error of the batch that DALI refused last
        self._pipeline, self._depth = pipeline, depth
        self._is_warm = False
        self._pushed: deque[Inputs] = deque()  # DALI reads their bytes until they are taken
        self._taken_early: deque[Outputs] = deque()

    def __len__(self) -> int:
        return len(self._pushed) + len(self._taken_early)

    def warm_up(self, inputs: Inputs) -> Sequence[Outputs]:
        """Run the pipeline on a batch and drop it: the first schedule_run starts `depth` runs at once.

        Returns:
            The outputs of each run; none if the pipeline was warm.
        """
        if self._is_warm:
            return ()
        for _ in range(self._depth):
            self._feed(inputs)
        self._pipeline.schedule_run()
        taken = [self._take(None) for _ in range(self._depth)]
        self._is_warm = True
        return taken

    def push(self, inputs: Inputs) -> None:
        """Start on a batch of at least one sample; `warm_up` comes before."""
        self._feed(inputs)
        self._pipeline.schedule_run()

    def take(self, cuda_stream: Any = None) -> Outputs:
        """Wait for the oldest batch.

        Args:
            cuda_stream: The stream that will read the outputs; with None the host waits.
        """
        return self._taken_early.popleft() if self._taken_early else self._take(cuda_stream)

    def run_now(self, inputs: Inputs, cuda_stream: Any = None) -> Outputs:
        """Run a batch out of turn; the order of the pushed batches does not change."""
        while self._pushed:
            self._taken_early.append(self._take(cuda_stream))
        self.push(inputs)
        return self._take(cuda_stream)

    def drain(self) -> None:
        """Wait for the pushed batches and drop them."""
        self._taken_early.clear()
        while self._pushed:
            self._take(None)

    def _feed(self, inputs: Inputs) -> None:
        for name, batch in inputs.items():
            self._pipeline.feed_input(name, batch)
        self._pushed.append(inputs)

    def _take(self, cuda_stream: Any) -> Outputs:
        try:
            outputs: Sequence[Any] = self._pipeline.share_outputs(cuda_stream=cuda_stream)
            return outputs
        except Exception as error:  # noqa: BLE001 - DALI raises many types; the CPU judges each sample
            self.refusal = _short(str(error))
            return None
        finally:
            # With DALI's default executor the outputs stay valid for as long as they are referenced.
            self._pipeline.release_outputs()
            self._pushed.popleft()


def _short(refusal: str) -> str:
    """Return the cause of a DALI error, without the frame that every DALI error has."""
    before, met, after = refusal.partition("encountered:")
    lines = [line.strip() for line in (after if met else before).splitlines()]
    frame = ("", "Critical error in pipeline:", "Current pipeline object is no longer valid.")
    return " ".join(line for line in lines if line not in frame).rstrip(" :")
