"""On a GPU that is not there: what is launched when, on which stream, and when DALI has its memory again."""

import gc
import logging
import weakref
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils._pytree import tree_leaves

from dali_pipes import Loader
from dali_pipes.decode.dali.loan import Loan
from dali_pipes.samples.fields import Field
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.cuda_streams import SideStream
from dali_pipes.stages.data import Finished, failed
from dali_pipes.stages.pipeline import Pipeline
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.fake_gpu import DEVICE
from tests.support.fake_streams import Stream, TensorOnGpu, fake_device, without_gpu

pytestmark = pytest.mark.needs_dali

RECIPE = Recipe([RandomResizedCrop(32)])


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Loaders on a GPU that is not there, and a log of what they augment."""
    augment = Engines.augment

    def logged(engines: Engines, finished: Finished, canvases: Any) -> Any:
        watch.streams.log.append((watch.streams.now.name, f"augment {finished.plan.step}"))
        return augment(engines, finished, canvases)

    monkeypatch.setattr(Engines, "augment", logged)
    without_gpu(monkeypatch)
    with fake_device(monkeypatch) as watch:
        yield watch


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory, jpeg: Any) -> Dataset:
    """Enough for five steps."""
    root = tmp_path_factory.mktemp("photographs")
    for number in range(10):
        (root / f"{number}.jpg").write_bytes(jpeg(50, 60, number))
    return open_dataset(root)


def started(gpu: Any, photographs: Dataset, decoder: Any) -> tuple[Loader, Pipeline]:
    """A pipeline that has as many steps under way as it takes."""
    with gpu.waiting():
        loader = Loader(
            photographs, RECIPE, batch_size=2, device="cuda", decoder=decoder, engine="kornia", num_threads=1
        )  # fmt: skip
        steps = loader._expected
        pipeline: Any = loader._production.open(steps.largest)
    for _, plan in zip(range(pipeline.capacity + 1), steps.plans(0, 0), strict=False):
        pipeline.start(plan)
    return loader, pipeline


def rendered(pipeline: Pipeline) -> list[Any]:
    """Wait until our threads have rendered all steps, and return the keys of each one's samples."""
    for step in pipeline._steps:
        assert step.prepared is not None
        wait(step.prepared.result(60)._parts, 60)
    pipeline.ready()
    return [step.keys for step in pipeline._steps]


def augmented(gpu: Any) -> list[tuple[str, str]]:
    """What was augmented so far, and on which stream."""
    return [entry for entry in gpu.streams.log if entry[1].startswith("augment")]


@pytest.mark.parametrize("decoder", ["cpu", "dali"])
def test_the_next_step_is_launched_with_the_present_one(
    gpu: Any, photographs: Dataset, decoder: str
) -> None:
    """A loop that gets a step finds the augmentation of the next one behind it on the side stream, and no further ones."""
    loader, pipeline = started(gpu, photographs, decoder)
    if decoder == "cpu":
        rendered(pipeline)

    pipeline.take()

    assert augmented(gpu) == [("side", "augment 0"), ("side", "augment 1")]
    pipeline.take()
    assert augmented(gpu)[2:] == [("side", "augment 2")]
    loader._production.stop(pipeline)


def test_a_step_that_is_not_rendered_holds_nothing_up(gpu: Any, photographs: Dataset) -> None:
    """Our threads are still at the next step: the present one is handed over without it."""
    loader, pipeline = started(gpu, photographs, "cpu")
    rendered(pipeline)
    later: Any = pipeline._steps[1].pending
    later._parts = [*later._parts, pipeline_never := Never()]

    pipeline.take()

    assert augmented(gpu) == [("side", "augment 0")]
    assert pipeline_never.asked
    loader._production.stop(pipeline)


class Never:
    """A part that is never done."""

    asked = False

    def done(self) -> bool:
        """Whether it is."""
        self.asked = True
        return False


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The warnings that were logged; other tests may have turned on messages of a lower level."""
    return [record for record in caplog.records if record.levelno == logging.WARNING]


def names_of(logged: str) -> str:
    """The step and the samples that a message begins with."""
    return logged[: logged.index(")") + 1]


@pytest.mark.parametrize("num_failures", [1, 2])
def test_a_launch_that_fails_ahead_is_logged_and_tried_again(
    gpu: Any,
    photographs: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    num_failures: int,
) -> None:
    """In its turn the step is there or, if it fails once more, its error names it and its samples."""
    augment, failures = Engines.augment, iter(range(num_failures))

    def augment_or_fail(engines: Engines, finished: Finished, canvases: Any) -> Any:
        if finished.plan.step == 1 and next(failures, None) is not None:
            raise RuntimeError("out of memory")
        return augment(engines, finished, canvases)

    loader, pipeline = started(gpu, photographs, "cpu")
    keys = [str(key) for key in rendered(pipeline)[1]]
    monkeypatch.setattr(Engines, "augment", augment_or_fail)

    assert pipeline.take()[0].plan.step == 0

    [record] = warnings_of(caplog)
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "out of memory"
    name = f"step 1 of epoch 0 (samples {keys[0]}, {keys[1]})"
    assert record.getMessage() == (
        f"{name} could not be launched on the GPU ahead of its turn; it is launched again then"
    )
    if num_failures == 1:
        assert pipeline.take()[0].plan.step == 1
    else:
        with pytest.raises(RuntimeError, match="out of memory") as raised:
            pipeline.take()
        assert raised.value.__notes__ == [f"raised while making {name}"]
    loader._production.stop(pipeline)


def test_what_fails_ahead_is_raised_in_its_turn(
    gpu: Any, photographs: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    """A step that cannot be decoded does not take the one before with it."""
    loader, pipeline = started(gpu, photographs, "dali")
    finish, steps = pipeline._decoder.finish, iter([None, ValueError("the second one")])

    def finish_or_fail(prepared: Any) -> Any:
        error = next(steps, None)
        step = finish(prepared)
        if error is not None:
            raise error
        return step

    pipeline._decoder.finish = finish_or_fail  # type: ignore[method-assign]

    finished, _ = pipeline.take()

    assert finished.plan.step == 0
    [logged] = [record.getMessage() for record in warnings_of(caplog)]
    assert logged.startswith("step 1 of epoch 0 (samples ")
    assert logged.endswith(") failed ahead of its turn")
    with pytest.raises(ValueError, match="the second one") as raised:
        pipeline.take()
    assert raised.value.__notes__ == [f"raised while making {names_of(logged)}"]
    assert pipeline.take()[0].plan.step == 2
    loader._production.stop(pipeline)


def test_a_failed_step_raises() -> None:
    """And so does what stands for it, each time."""
    step = failed(ValueError("no"))
    step.start()
    with pytest.raises(ValueError, match="no"):
        step.wait()


def lent(gpu: Any) -> tuple[SideStream, TensorOnGpu, torch.Tensor]:
    """Memory of DALI's, and torch's look at it."""
    from nvidia.dali import tensors

    side = SideStream(DEVICE)
    with gpu.waiting():
        ours = TensorOnGpu(
            tensors.TensorCPU(torch.zeros(2, 3, 3, dtype=torch.uint8).numpy()), gpu.streams
        )
    gpu.streams.side.seen["dali"] = gpu.streams.dali.asked
    return side, ours, Loan(side).tensor(ours)


def test_dali_has_its_memory_again_when_it_was_read(gpu: Any) -> None:
    """Neither a view that is left nor a kernel that runs finds other numbers there; in the end it is given back."""
    side, ours, tensor = lent(gpu)
    addresses = gpu.streams.outputs
    key = id(ours)
    del ours
    view = tensor[1]
    del tensor
    gc.collect()
    assert key in addresses  # the view looks at it
    with gpu.streams.stream(gpu.streams.side):
        view.add(1)
    del view
    gc.collect()
    assert key in addresses  # the kernel does
    for _ in range(2):
        side.run(lambda: [torch.empty(1, device=DEVICE)])
    assert key not in addresses
    assert gpu.streams.faults == []


def test_decoded_images_are_kept_while_canvases_are_made_of_them(gpu: Any) -> None:
    """A JPEG engine that waits for no stream finds other memory: theirs is free when a kernel behind the canvases is done."""

    class Decoded:
        """Images that canvases are made of."""

    side, ours, _ = lent(gpu)
    decoded = Decoded()
    owner, tensor = weakref.ref(decoded), Loan(side, [decoded]).tensor(ours)
    del decoded, tensor
    gc.collect()
    assert owner() is not None
    for _ in range(2):
        side.run(lambda: [torch.empty(1, device=DEVICE)])
    assert owner() is None


def test_the_end_of_a_loop_gives_all_back(gpu: Any) -> None:
    """What was read last is not held until another loop comes."""
    side, ours, tensor = lent(gpu)
    key = id(ours)
    with gpu.streams.stream(gpu.streams.side):
        tensor.add(1)
    del ours, tensor

    side.close()

    assert key not in gpu.streams.outputs
    assert gpu.streams.faults == []


def test_the_interface_that_dali_has() -> None:
    """What torch is told is what DALI says of a tensor on a GPU, with the type as NumPy names it."""
    from nvidia.dali import tensors

    class Lender:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (2, 3), "typestr": "|u1", "data": (1 << 40, False), "version": 2, "strides": None,
        }  # fmt: skip

    theirs = tensors.TensorGPU(Lender(), "", 0).__cuda_array_interface__
    told: list[Any] = []
    side: Any = type("Side", (), {"stream": 1, "device": DEVICE, "keep": told.append})()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "as_tensor", lambda lender, **_: told.append(lender))
        Loan(side).tensor(tensors.TensorGPU(Lender(), "", 0))

    assert told[0].__cuda_array_interface__ == Lender.__cuda_array_interface__
    assert theirs["typestr"] == "=B"


@pytest.mark.parametrize("recorded", [True, False])
def test_a_batch_on_another_stream(gpu: Any, tmp_path: Path, jpeg: Any, *, recorded: bool) -> None:
    """All of a batch is handed over in one way: images, labels, masks, boxes, keypoints, fields."""
    for number in range(2):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(50, 60, number))
        Image.new("L", (60, 50), number).save(tmp_path / f"{number}.mask.png")
        targets = '{"boxes": [[5, 6, 20, 30]], "labels": [1], "keypoints": [[9, 8]]}'
        (tmp_path / f"{number}.json").write_text(targets)
    with gpu.waiting():
        loader = Loader(
            open_dataset(tmp_path), RECIPE, batch_size=2, device="cuda", decoder="cpu", engine="kornia", num_threads=1,
            fields={"score": Field(float, default=2.5)},
        )  # fmt: skip
    batch = next(iter(loader))
    other = Stream(gpu.streams, "other")
    there = {name: tree_leaves(value) for name, value in batch.to_dict().items()}
    on_gpu = [one for ones in there.values() for one in ones if getattr(one, "is_cuda", False)]
    names = {"masks", "boxes", "box_labels", "keypoints", "score"}
    assert names < {name for name, ones in there.items() if any(one is ones[0] for one in on_gpu)}

    other.wait_stream(gpu.streams.now)
    if recorded:
        batch.record_stream(other)
    with gpu.streams.stream(other):
        for tensor in on_gpu:
            tensor.add(0)

    assert len(gpu.streams.faults) == (0 if recorded else len(on_gpu))
    loader.close()


def test_an_error_of_prepare_names_the_samples(gpu: Any, photographs: Dataset) -> None:
    """They are known by then: the step was fetched."""
    loader, pipeline = started(gpu, photographs, "cpu")
    keys = rendered(pipeline)[0]

    def fail(_fetched: Any) -> Any:
        raise RuntimeError("no memory for canvases")

    while pipeline._steps:
        pipeline.take()
    pipeline._decoder.prepare = fail  # type: ignore[method-assign]
    pipeline.start(next(loader._expected.plans(0, 0)))

    with pytest.raises(RuntimeError, match="no memory for canvases") as raised:
        pipeline.take()

    name = f"step 0 of epoch 0 (samples {keys[0]}, {keys[1]})"
    assert raised.value.__notes__ == [f"raised while making {name}"]
    loader._production.stop(pipeline)
