"""Taking over a step whose images were made in another process and lie in memory that it shares with this one."""

from collections.abc import Callable, Sequence

import torch

from dali_pipes.monitoring.work import Rows
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.cuda_streams import Ahead, SideStream
from dali_pipes.stages.data import Finished, Images, Pending, failed


class Receiver:
    """Takes steps that are made in other processes; on a GPU it augments the next one, if it is there, as it hands one over.

    Args:
        receive: Waits for the oldest step that was not received; what `take_over` returns.
        ready: How many steps are there that were not received.
        device: Device of the engines.

    Attributes:
        side: The stream on which they work.
    """

    def __init__(
        self,
        receive: Callable[[], tuple[Finished, Ahead]],
        ready: Callable[[], int],
        device: torch.device,
    ) -> None:
        self.side = SideStream(device)
        self._receive, self._ready = receive, ready
        self._next: Pending | None = None

    def ready(self) -> int:
        """How many steps are here."""
        return self._ready() + (self._next is not None)

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step."""
        step, self._next = self._next or self._received(), None
        made = step.wait()
        if self.side.stream is not None and self._ready():
            try:
                self._next = self._received()
            except Exception as error:  # noqa: BLE001 - it is raised in its turn
                self._next = failed(error)
        return made

    def close(self) -> None:
        """Let go of what is here."""
        self._next = None

    def _received(self) -> Pending:
        made = self._receive()
        return Pending(lambda _: made)


def take_over(
    engines: Engines, finished: Finished, shared: Sequence[torch.Tensor], side: SideStream
) -> tuple[Finished, Ahead]:
    """Copy the images of a step into memory of the batch's own; on a GPU augment the canvases that they are then.

    Args:
        engines: Those of the step's recipe.
        finished: The step.
        shared: Its images or canvases, per view; only read, and not needed any more once this returns.
        side: The stream that augments.
    """
    recorder, count, work = engines.recorder, len(finished), Rows(finished.plan, ())
    if engines.device.type == "cpu":
        num_bytes = sum(view.nbytes for view in shared)
        with recorder.measure("transfer", samples=count, num_bytes=num_bytes, work=work):
            images = engines.empty(count)
            for mine, theirs in zip(images, shared, strict=True):
                mine.copy_(theirs)
        return finished, Ahead(images, None)
    canvases = engines.canvases(count)
    with recorder.measure("transfer", samples=count, work=work):
        for canvas, theirs in zip(canvases.views, shared, strict=True):
            assert isinstance(canvas, torch.Tensor)  # see `frame_of`
            canvas.copy_(theirs)
    return finished, side.run(lambda: engines.augment(finished, engines.upload(canvases)))
