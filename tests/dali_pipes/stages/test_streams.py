"""Steps that were made in another process."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dali_pipes.decode.dali.loan import Loan
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.stages import cuda_streams as streams
from dali_pipes.stages.cuda_streams import Ahead, SideStream
from dali_pipes.stages.shared_batch import RemoteBatchSource, take_over
from tests.support import waiting


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

    makers: Any = SimpleNamespace(capacity=4, num_ready=lambda _: len(there))
    device = torch.device("cuda" if on_gpu else "cpu")
    source = RemoteBatchSource(makers, [SimpleNamespace(recorder=None, device=device)])  # type: ignore[list-item]
    monkeypatch.setattr(source, "_receive", receive)

    assert source.take()[0] == "first"  # type: ignore[comparison-overlap]
    assert len(there) == (2 if on_gpu else 3)
    assert source.ready() == 3
    with pytest.raises(ValueError, match="no"):
        source.take()
    assert [source.take()[0], source.take()[0]] == ["third", "fourth"]  # type: ignore[comparison-overlap]
    assert source.ready() == 0


_LONG_CYCLES = 2_000_000_000  # about a second: longer than a collection of garbage


def test_on_a_cpu_work_is_done_at_once() -> None:
    """There is no stream, and the results are there."""
    side = SideStream(torch.device("cpu"))

    (result,) = side.run(lambda: [torch.ones(3) * 2]).take()

    assert side.stream is None
    assert result.tolist() == [2, 2, 2]


def slow_ones(value: float) -> torch.Tensor:
    """A large tensor of one value, written only after some milliseconds of other work."""
    busy = torch.randn(2048, 2048, device="cuda")
    for _ in range(40):
        busy = (busy @ busy).clamp(-1, 1)
    return torch.full((1 << 22,), value, device="cuda") + 0 * busy[0, 0]


@pytest.mark.needs_cuda
def test_the_current_stream_waits() -> None:
    """What is read right after the hand-over is the finished result; unfinished without it (control)."""
    side, sums = SideStream(torch.device("cuda")), []
    slow_ones(0)
    torch.cuda.synchronize()
    for value in range(1, 6):
        ahead = side.run(lambda value=value: [slow_ones(value)])
        sums.append(ahead.take()[0].sum())
    expected = [float(value * (1 << 22)) for value in range(1, 6)]

    assert torch.stack(sums).tolist() == expected
    ahead = side.run(lambda: [slow_ones(7)])
    assert not ahead.done.query()


@pytest.mark.needs_cuda
def test_memory_is_kept_until_it_was_read() -> None:
    """A result that is dropped while the current stream still reads it is not written over."""
    side, sums = SideStream(torch.device("cuda")), []
    for value in range(1, 9):
        (result,) = side.run(lambda value=value: [torch.full((1 << 22,), float(value), device="cuda")]).take()  # fmt: skip
        slow_ones(0)  # the current stream is late
        sums.append(result.sum())
        del result
        side.run(lambda: [torch.zeros(1 << 22, device="cuda") for _ in range(4)])

    assert torch.stack(sums).tolist() == [float(value * (1 << 22)) for value in range(1, 9)]


@pytest.mark.needs_cuda
def test_the_host_does_not_wait() -> None:
    """Neither running nor taking synchronises."""
    side = SideStream(torch.device("cuda"))
    side.run(lambda: [slow_ones(1)]).take()
    with waiting.forbidden():
        ahead = side.run(lambda: [slow_ones(1)])
        ahead.take()
        assert not ahead.done.query()


@pytest.mark.needs_cuda
@pytest.mark.needs_dali
def test_memory_of_dali_is_read_in_place() -> None:
    """Torch looks at DALI's address, the host does not wait, and DALI's object lives until a late kernel has read it."""
    from nvidia.dali import tensors

    side = SideStream(torch.device("cuda", 0))
    slow_ones(0)
    ours = torch.arange(24, dtype=torch.uint8, device="cuda:0").view(2, 3, 4)
    torch.cuda.synchronize()
    theirs, owner = tensors.TensorGPU(ours, "", 0), weakref.ref(ours)
    with torch.cuda.stream(side.stream), waiting.forbidden():
        tensor = Loan(side).tensor(theirs)
        torch.cuda._sleep(_LONG_CYCLES)
        sums = tensor.sum((1, 2))
    assert (tensor.data_ptr(), tensor.device, tensor.shape) == (ours.data_ptr(), ours.device, ours.shape)  # fmt: skip
    del ours, theirs, tensor
    gc.collect()

    assert owner() is not None
    assert not side.stream.query()
    side.close()
    assert owner() is None
    assert sums.tolist() == [66, 210]
