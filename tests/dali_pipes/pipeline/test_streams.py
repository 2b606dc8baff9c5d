"""Work on a side stream: finished before it is read, and its memory not given out too early."""

import gc
import weakref

import pytest
import torch

from dali_pipes.decode.dali.loan import Loan
from dali_pipes.pipeline.streams import SideStream
from tests.support import waiting

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
