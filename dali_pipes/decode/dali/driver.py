"""Run a DALI pipeline by pushing batches into it."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dali_pipes.errors import LoaderError, import_optional

INSTALL_DALI = (
    "NVIDIA DALI is not installed; install it with \"pip install 'gpu-aug[cuda12]'\" "
    'or choose decoder="cpu"'
)

Inputs = Mapping[str, Any]
"""The batch of each pipeline input, by input name."""

Outputs = Sequence[Any] | None
"""The outputs of the pipeline for a batch, one TensorList each; None if DALI refused the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """Options that all our DALI pipelines have.

    Attributes:
        batch_size: Size of the largest batch.
        device: Where DALI decodes.
        device_id: The GPU for "mixed"; None for "cpu".
        num_threads: Count of DALI's threads.
        depth: Count of batches that DALI works on at once.
    """

    batch_size: int
    device: Literal["cpu", "mixed"]
    device_id: int | None
    num_threads: int
    depth: int


def new_pipeline(options: PipelineOptions) -> Any:
    """Return a DALI pipeline without operators.

    Raises:
        MissingPackageError: DALI is not installed.
    """
    return import_optional("nvidia.dali", INSTALL_DALI).Pipeline(
        batch_size=options.batch_size,
        num_threads=options.num_threads,
        device_id=options.device_id,
        prefetch_queue_depth=options.depth,
    )


class Driver:
    """A built DALI pipeline; each push is one run, and outputs come in push order.

    Args:
        pipeline: The pipeline, with DALI's default executor.
        depth: The pipeline's prefetch_queue_depth.

    Attributes:
        depth: The pipeline's prefetch_queue_depth: how many batches may be pushed before the first is taken.
        refusal: DALI's message for the last batch that it refused.
    """

    def __init__(self, pipeline: Any, depth: int) -> None:
        self.depth, self.refusal = depth, ""
        self._pipeline = pipeline
        self._is_warm = False
        # Kept because DALI reads their bytes until the outputs are taken.
        self._pushed: deque[Inputs] = deque()
        self._taken_early: deque[Outputs] = deque()

    def __len__(self) -> int:
        return len(self._pushed) + len(self._taken_early)

    def warm_up(self, inputs: Inputs) -> Sequence[Outputs]:
        """Run the pipeline `depth` times on a batch, because DALI's first schedule_run starts that many runs at once.

        Returns:
            The outputs of each run; empty if the pipeline has run before.
        """
        if self._is_warm:
            return ()
        for _ in range(self.depth):
            self._feed(inputs)
        self._pipeline.schedule_run()
        taken = [self._take(None) for _ in range(self.depth)]
        self._is_warm = True
        return taken

    def push(self, inputs: Inputs) -> None:
        """Start a run on a batch of at least one sample; call `warm_up` before the first push."""
        self._feed(inputs)
        self._pipeline.schedule_run()

    def take(self, cuda_stream: Any = None) -> Outputs:
        """Wait for the outputs of the oldest batch.

        Args:
            cuda_stream: The stream that reads the outputs; with None the host waits.

        Returns:
            The outputs, or None if DALI refused the batch. The pipeline can run further batches in both cases.

        Raises:
            LoaderError: The number of outputs differs from the number of pushed samples.
        """
        return self._taken_early.popleft() if self._taken_early else self._take(cuda_stream)

    def run_now(self, inputs: Inputs, cuda_stream: Any = None) -> Outputs:
        """Run a batch at once, before the pushed batches, whose order does not change.

        Returns:
            The outputs, or None if DALI refused the batch; see `take`.
        """
        while self._pushed:
            self._taken_early.append(self._take(cuda_stream))
        self.push(inputs)
        return self._take(cuda_stream)

    def drain(self) -> None:
        """Wait for the pushed batches and drop their outputs."""
        self._taken_early.clear()
        while self._pushed:
            self._take(None)

    def _feed(self, inputs: Inputs) -> None:
        for name, batch in inputs.items():
            self._pipeline.feed_input(name, batch)
        self._pushed.append(inputs)

    def _take(self, cuda_stream: Any) -> Outputs:
        outputs: Outputs = None
        try:
            outputs = self._pipeline.share_outputs(cuda_stream=cuda_stream)
        except Exception as error:  # noqa: BLE001 - DALI raises many types; the CPU judges each sample
            self.refusal = _short(str(error))
        finally:
            # With DALI's default executor, outputs stay valid as long as they are referenced.
            self._pipeline.release_outputs()
            pushed = self._pushed.popleft()
        count = len(next(iter(pushed.values())))
        if outputs is not None and len(outputs[0]) != count:
            raise LoaderError(
                f"the pipeline makes {len(outputs[0])} images of {count}; let nothing else feed it, and leave "
                f"the samples of a batch in their places"
            )
        return outputs


def _short(refusal: str) -> str:
    """Return the cause of a DALI error, without DALI's boilerplate around it."""
    before, met, after = refusal.partition("encountered:")
    lines = [line.strip() for line in (after if met else before).splitlines()]
    frame = ("", "Critical error in pipeline:", "Current pipeline object is no longer valid.")
    return " ".join(line for line in lines if line not in frame).rstrip(" :")
