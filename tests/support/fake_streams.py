"""The streams of a GPU that is not there: what they are asked for, and whether that would be a race on a real one.

Two streams are there, that of the loop and the side stream, and DALI writes by one of its own. Whatever reads memory that another
stream wrote must have waited for it; memory that another stream reads must be recorded on that, or, if it is DALI's, kept until it has
been read. An event is done when it is asked for the second time, so the host learns of it late.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dali_pipes.decode.dali import feed
from tests.support.fake_gpu import DEVICE, fake_gpu


@dataclass(eq=False)
class Memory:
    """What happened to a piece of memory: by whom it was made, when it was last written, and read by whom."""

    maker: str
    written: tuple[str, int]
    reads: dict[str, int] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)


class Stream:
    """A stream: `seen` says of each other how far it has waited for it, `done` how far the host knows it to be."""

    def __init__(self, gpu: "FakeDevice", name: str) -> None:
        self.gpu, self.name = gpu, name
        self.asked = self.done = 0
        self.seen: dict[str, int] = {}

    def record_event(self) -> "Event":
        """An event behind all that the stream was asked for."""
        return Event(self)

    def wait_event(self, event: "Event") -> None:
        """Wait, and for what the other stream has waited for, too."""
        for name, number in event.seen.items():
            self.seen[name] = max(self.seen.get(name, 0), number)

    def wait_stream(self, stream: "Stream") -> None:
        """Wait for all that another was asked for."""
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        """The host waits."""
        self.done = self.asked


class Event:
    """A place in a stream's order."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.number, self._asked = stream, stream.asked, 0
        self.seen = {**stream.seen, stream.name: stream.asked}

    def query(self) -> bool:
        """Whether it is done; the host hears of it the second time."""
        self._asked += 1
        if self._asked > 1:
            self.synchronize()
        return self.stream.done >= self.number

    def synchronize(self) -> None:
        """The host waits."""
        self.stream.done = max(self.stream.done, self.number)


class FakeDevice:
    """Watches memory and streams; see `fake_device`.

    Attributes:
        faults: What would go wrong on a real one.
        log: What was launched or marked, in order, with the stream's name.
        dali_on_gpu: Whether what DALI makes is said to lie on the GPU.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.log: list[tuple[str, str]] = []
        self.dali_on_gpu = True
        self.loop, self.side, self.dali = (Stream(self, name) for name in ("loop", "side", "dali"))
        self.now = self.loop
        self.outputs: weakref.WeakValueDictionary[int, TensorOnGpu] = weakref.WeakValueDictionary()
        self._memory: dict[int, Memory] = {}
        self._lenders: dict[int, Any] = {}

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        """Make a stream the current one, as torch.cuda.stream does."""
        before, self.now = self.now, stream
        try:
            yield
        finally:
            self.now = before

    def launched(self, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Note a kernel on the current stream, which reads its inputs and makes what is new among its outputs."""
        now = self.now
        now.asked += 1
        self.log.append((now.name, name))
        known = [self._of(tensor) for tensor in inputs]
        for memory in known:
            if memory is not None:
                self._read(memory, name)
        for tensor in outputs:
            if self._of(tensor) is None:
                self._note(tensor, Memory(now.name, (now.name, now.asked)))

    def wrote(self, tensor: Tensor) -> None:
        """Note that the latest kernel wrote to a tensor."""
        memory = self._of(tensor)
        if memory is not None:
            memory.written = (self.now.name, self.now.asked)

    def record(self, tensor: Tensor, stream: Stream) -> None:
        """Stand for Tensor.record_stream."""
        memory = self._of(tensor)
        assert memory is not None
        memory.recorded.add(stream.name)

    def borrow(self, lender: Any, device: torch.device) -> Tensor:
        """Stand for torch.as_tensor of what has a __cuda_array_interface__: the tensor holds on to it."""
        theirs = lender.__cuda_array_interface__
        assert np.dtype(theirs["typestr"]) == np.uint8
        assert theirs["typestr"] == "|u1"
        tensor = torch.empty(theirs["shape"], dtype=torch.uint8, device=device)
        self._note(tensor, self.outputs[theirs["data"][0]].memory)
        storage = tensor.untyped_storage()
        self._lenders[storage._cdata] = lender
        weakref.finalize(storage, self._lenders.pop, storage._cdata)
        return tensor

    def share_outputs(self, outputs: Any, cuda_stream: Stream | None) -> Any:
        """Stand for what DALI hands over."""
        if not self.dali_on_gpu:
            return outputs
        self.dali.asked += 1
        for stream in [self.loop, self.side] if cuda_stream is None else [cuda_stream]:
            stream.seen["dali"] = self.dali.asked
        return tuple(ListOnGpu(one, self) for one in outputs)

    def _read(self, memory: Memory, name: str) -> None:
        now = self.now
        writer, number = memory.written
        if writer != now.name and now.seen.get(writer, 0) < number:
            self.faults.append(f"{name} on {now.name} does not wait for {writer}")
        if memory.maker not in ("dali", now.name) and now.name not in memory.recorded:
            self.faults.append(f"{name} reads memory of {memory.maker}, not recorded on {now.name}")
        memory.reads[now.name] = now.asked

    def _of(self, tensor: Tensor) -> Memory | None:
        return self._memory.get(tensor.untyped_storage()._cdata)

    def _note(self, tensor: Tensor, memory: Memory) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._memory:
            weakref.finalize(storage, self._memory.pop, storage._cdata, None)
        self._memory[storage._cdata] = memory


class TensorOnGpu:
    """Stands for DALI's TensorGPU."""

    def __init__(self, tensor: Any, gpu: FakeDevice) -> None:
        self._tensor, self._gpu = tensor, gpu
        self.dtype, self.shape = tensor.dtype, tensor.shape
        self.memory = Memory("dali", ("dali", gpu.dali.asked))
        gpu.outputs[id(self)] = self

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "typestr": "=B",
            "shape": tuple(self._tensor.shape()),
            "data": (id(self), False),
            "version": 2,
            "strides": None,
        }

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError(
            "what DALI exports by DLPack is freed with a wait for the whole device"
        )

    __dlpack_device__ = __dlpack__

    def __del__(self) -> None:
        for name, number in self.memory.reads.items():
            if getattr(self._gpu, name).done < number:
                self._gpu.faults.append(f"DALI has its memory again while {name} may read it")


class ListOnGpu:
    """Stands for DALI's TensorListGPU."""

    def __init__(self, tensors: Any, gpu: FakeDevice) -> None:
        self._tensors, self._gpu = tensors, gpu

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, number: int) -> TensorOnGpu:
        return TensorOnGpu(self._tensors[number], self._gpu)

    def as_tensor(self) -> TensorOnGpu:
        """All in one."""
        return TensorOnGpu(self._tensors.as_tensor(), self._gpu)


@contextmanager
def fake_device(monkeypatch: Any) -> Iterator[Any]:
    """Let loaders find a GPU that is not there, and watch its streams; gives what `fake_gpu` does, with `streams`."""
    from nvidia.dali import Pipeline

    gpu, as_tensor, share = FakeDevice(), torch.as_tensor, Pipeline.share_outputs

    def borrow(value: Any, *, device: Any = None, **kwargs: Any) -> Tensor:
        if hasattr(value, "__cuda_array_interface__") and not isinstance(value, Tensor):
            return gpu.borrow(value, device)
        return as_tensor(value, device=device, **kwargs)

    monkeypatch.setattr("dali_pipes.arguments.choose._numbered", lambda _: DEVICE)
    monkeypatch.setattr("dali_pipes.stages.cuda_streams._stream_of", lambda _: gpu.side)
    monkeypatch.setattr(torch.cuda, "stream", gpu.stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _=None: gpu.now)
    monkeypatch.setattr(Tensor, "record_stream", lambda tensor, stream: gpu.record(tensor, stream))
    monkeypatch.setattr(torch, "as_tensor", borrow)
    monkeypatch.setattr(
        Pipeline,
        "share_outputs",
        lambda pipeline, cuda_stream=None: gpu.share_outputs(share(pipeline), cuda_stream),
    )
    with fake_gpu() as watch:
        watch.streams = gpu
        yield watch


def without_gpu(monkeypatch: Any) -> None:
    """Let the pipelines of DALI that decode images for a GPU be built on the CPU."""
    build = feed._build
    monkeypatch.setattr(feed, "_build", lambda options: build(replace(options, device_id=None)))
    monkeypatch.setattr("dali_pipes.decode.dali.graph.decode", _decode_on_the_cpu)


def _decode_on_the_cpu(encoded: Any, _start: Any, _shape: Any, *, device: str, **_: Any) -> Any:
    """What `graph.decode` does on a GPU."""
    from nvidia.dali import fn

    assert device == "mixed"
    return fn.decoders.image(encoded)
