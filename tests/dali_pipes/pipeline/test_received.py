"""Steps that were made in another process."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dali_pipes.pipeline import streams
from dali_pipes.pipeline.received import Receiver, take_over
from dali_pipes.pipeline.streams import Ahead, SideStream
from dali_pipes.stats.recorder import Recorder


class Step:
    """Two images, of which nothing else is asked."""

    plan = None

    def __len__(self) -> int:
        return 2


def test_a_batch_has_memory_of_its_own() -> None:
    """What is written into it, as an operation in place does, does not change what other processes read."""
    shared = torch.arange(2 * 3 * 4 * 4).view(2, 3, 4, 4)
    engines: Any = SimpleNamespace(
        device=torch.device("cpu"),
        recorder=Recorder(),
        empty=lambda count: (torch.empty(count, 3, 4, 4, dtype=torch.int64),),
    )
    step: Any = Step()

    _, ahead = take_over(engines, step, [shared], SideStream(engines.device))
    (images,) = ahead.take()

    assert torch.equal(images, shared)
    images.zero_()
    assert torch.equal(shared.flatten(), torch.arange(96))


@pytest.mark.parametrize("on_gpu", [False, True])
def test_on_a_gpu_the_next_step_is_received_ahead(
    monkeypatch: pytest.MonkeyPatch, *, on_gpu: bool
) -> None:
    """If it is there, and no further one; one that fails does not take the one before with it."""
    monkeypatch.setattr(streams, "_stream_of", lambda _: "a stream")
    there: list[Any] = ["first", ValueError("no"), "third", "fourth"]

    def receive() -> Any:
        step = there.pop(0)
        if isinstance(step, Exception):
            raise step
        return step, Ahead((torch.ones(1),), None)

    receiver = Receiver(receive, lambda: len(there), torch.device("cuda" if on_gpu else "cpu"))

    assert receiver.take()[0] == "first"  # type: ignore[comparison-overlap]
    assert len(there) == (2 if on_gpu else 3)
    assert receiver.ready() == 3
    with pytest.raises(ValueError, match="no"):
        receiver.take()
    assert [receiver.take()[0], receiver.take()[0]] == ["third", "fourth"]  # type: ignore[comparison-overlap]
    assert receiver.ready() == 0
