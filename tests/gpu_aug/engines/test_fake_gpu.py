"""What runs on a GPU neither mixes devices nor lets the host wait: tried with tensors that only say they are there."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils._pytree import tree_leaves

from dali_pipes import Batch, ImageOptions, Loader
from dali_pipes.decode.dali import feed
from dali_pipes.decode.dali.driver import PipelineOptions
from dali_pipes.decode.dali.feed import FeedOptions
from dali_pipes.decode.dali.user_pipeline import from_dali
from dali_pipes.video.clips import Clips
from dali_pipes.video.dali import feed as video_feed
from dali_pipes.video.dali.clip_decoder import color_correction
from dali_pipes.video.dali.nvdec import Nvdec
from gpu_aug import (
    AutoAugment,
    ColorJitter,
    CutMix,
    Gamma,
    GaussianBlur,
    HorizontalFlip,
    KeypointParams,
    MixUp,
    Mosaic,
    Normalize,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
    Recipe,
    Resize,
    compile_engine,
)
from gpu_aug.presets import PRESETS
from gpu_aug.views import Views
from readers import Dataset, open_dataset
from readers.video import VideoFolderDataset
from tests.gpu_aug.engines.test_engines_agree import ROWS
from tests.support.fake_gpu import DEVICE, HostWaitError, fake_gpu
from tests.support.fake_streams import fake_device, without_gpu
from tests.support.rows.row import SIZE
from tests.support.videos import write_videos

pytest.importorskip("triton")

NUM = 4
long = partial(pytest.param, marks=pytest.mark.long)
OVER_THE_HOST = (
    "gray, from Lab", "equalize luma", "CLAHE", "GlassBlur", "ChromaticAberration", "JPEG", "WebP", "Superpixels", "Spatter",
    "Downscale, area and bicubic",
)  # fmt: skip
"""Rows of what exists on the CPU alone, by how their labels begin."""


def run(engine: Any, recipe: Recipe, dtype: torch.dtype = torch.bfloat16) -> None:
    """Carry out the batch stage on a GPU that is not there."""
    sizes = np.full((NUM, 2), (240, 320) if recipe.decode_operations else SIZE)
    boxes = [[[5, 6, 20, 30]]] * NUM if recipe.needs_boxes else None
    draws = recipe.draw(1, 0, np.arange(NUM), sizes, boxes=boxes)
    results = recipe.result_sizes(draws).tolist()
    alike = recipe.size is not None
    groups = [slice(0, NUM)] if alike else [slice(row, row + 1) for row in range(NUM)]
    with fake_gpu() as watch:
        with watch.waiting():
            compiled = compile_engine(engine, recipe, device=DEVICE)
        canvases = [
            torch.empty((*canvas, 3), dtype=torch.uint8, device=DEVICE)
            for canvas in draws.crops.canvas.tolist()
        ]
        for rows in groups:
            images = canvases[rows] if recipe.decode_size is None else torch.stack(canvases[rows])
            shape = (len(images), 3, *results[rows.start])
            compiled.run(
                images,
                draws.rows(rows.start, rows.stop),
                torch.empty(shape, dtype=dtype, device=DEVICE),
            )


FIRST_ROWS = {type(row.operation): label for label, row in reversed(ROWS.items())}
"""One row of each operation; the others go the same ways with other numbers."""


@pytest.mark.parametrize(
    "label",
    [label if label in FIRST_ROWS.values() else long(label) for label in ROWS],
)
def test_operation(label: str) -> None:
    """Every operation, on both engines, for images of one size."""
    recipe = Recipe([Resize(SIZE), HorizontalFlip(0.5), ROWS[label].operation])
    for engine in ("kornia", "fused"):
        if label.startswith(OVER_THE_HOST):
            with pytest.raises(HostWaitError, match="cuda to cpu"):
                run(engine, recipe)
        else:
            run(engine, recipe)


@pytest.mark.parametrize("engine", ["kornia", "fused"])
@pytest.mark.parametrize("name", PRESETS)
def test_preset(name: str, engine: str) -> None:
    """Every preset, in its own size."""
    made = Recipe.preset(name)
    several = made.recipes if isinstance(made, Views) else [made]
    for recipe in {one.fingerprint: one for one in several}.values():
        run(engine, recipe)


CHAINS = {
    "mixing": [RandomResizedCrop(48), RandomAffine(15), CutMix(), MixUp(), Mosaic(), Normalize()],
    "written in between": [RandomAffine(15, p=0.5), GaussianBlur(5, p=0.5), ColorJitter(0.4, 0.4, 0.4, 0.1), RandomErasing(0.5, value="random")],
    "policy": [RandomResizedCrop(48), AutoAugment(), RandomErasing(), Normalize()],
    "several sizes": [HorizontalFlip(), GaussianBlur(5, p=0.5), RandomResizedCrop(48), Normalize()],
}  # fmt: skip


@pytest.mark.parametrize("engine", ["kornia", "fused"])
@pytest.mark.parametrize("dtype", [torch.uint8, long(torch.float32)], ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_chain(name: str, dtype: torch.dtype, engine: str) -> None:
    """Operations after each other: images are written in between, mixed, and of several sizes."""
    run(engine, Recipe(CHAINS[name]), dtype)


PLANTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a number that is read": lambda x: x * x.mean().item(),
    "a test": lambda x: x if (x > 0).any() else x + 1,
    "a tensor on the host": lambda x: x + torch.ones(3, 1, 1),
    "values that are chosen": lambda x: x[x > 0],
    "a list of indices": lambda x: x[:, [0, 1, 2]],
    "a tensor made on the GPU": lambda x: x * torch.tensor([1.0, 2.0, 3.0], device=x.device)[:, None, None],
    "a copy that waits": lambda x: x + torch.ones(3, 1, 1).to(x.device),
    "a way over the host": lambda x: x.cpu().to(x.device, non_blocking=True),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_faults_would_be_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: what mixes devices or waits ends with an error."""
    from gpu_aug.engines.backends import color

    planted = PLANTED[name]
    monkeypatch.setattr(
        color, "per_image", lambda values, device: _planted(planted, values, device)
    )
    with pytest.raises((HostWaitError, RuntimeError)):
        run("kornia", Recipe([Resize(SIZE), Gamma()]))


def _planted(planted: Callable[[torch.Tensor], Any], values: Any, device: torch.device) -> Any:
    planted(torch.empty(2, 3, 8, 8, device=device))
    return torch.empty(len(values), 1, 1, 1, device=device)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Loaders on a GPU that is not there, whose DALI decodes on the CPU into what is said to be memory of that GPU."""
    with fake_device(monkeypatch) as watch:
        yield watch
        gc.collect()
        assert watch.streams.faults == []


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory, jpeg: Any) -> Dataset:
    """Pictures with masks, boxes and keypoints; one is no JPEG and one is damaged."""
    root = tmp_path_factory.mktemp("photographs")
    for number in range(12):
        (root / f"{number:02d}.jpg").write_bytes(jpeg(50 + number, 70, number))
        Image.new("L", (70, 50 + number), number).save(root / f"{number:02d}.mask.png")
        (root / f"{number:02d}.json").write_text(
            '{"boxes": [[5, 6, 20, 30]], "labels": [1], "keypoints": [[9, 8]]}'
        )
    Image.new("RGB", (70, 53)).save(root / "03.jpg", "PNG")
    (root / "05.jpg").write_bytes(jpeg(55, 70)[:900])
    dataset = open_dataset(root)
    return dataset.with_labels([row % 3 for row in range(len(dataset))])


NO_SIDES = KeypointParams(flip_pairs=())
LOADED: dict[str, Any] = {
    "plain": Recipe([RandomResizedCrop(32), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1), Normalize()], keypoints=NO_SIDES),
    "several sizes": Recipe([Resize(40), HorizontalFlip(), RandomResizedCrop(32)], keypoints=NO_SIDES),
    "views": Views([Recipe([RandomResizedCrop(32)]), Recipe([HorizontalFlip(), Resize((24, 24))])]),
    "mixed": Recipe([RandomResizedCrop(32), CutMix(num_classes=3), MixUp(num_classes=3)]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "decoder", "engine"),
    [
        *((name, "dali", "fused") for name in LOADED),
        ("several sizes", "cpu", "kornia"),
        ("mixed", "cpu", "kornia"),
        *(long(name, "cpu", "kornia") for name in ("plain", "views")),
        *(long(name, "cpu", "fused") for name in LOADED),
        *(long(name, "dali", "kornia") for name in LOADED),
    ],
)
@pytest.mark.needs_dali
def test_loader(
    gpu: Any,
    photographs: Dataset,
    name: str,
    decoder: Any,
    engine: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From encoded images to batches with targets, beside bad samples: only DALI itself is another one."""
    without_gpu(monkeypatch)
    targets = [] if name == "mixed" else "auto"
    with gpu.waiting():
        loader = Loader(
            photographs, LOADED[name], batch_size=5, device="cuda", decoder=decoder, engine=engine,
            num_threads=1, on_bad_sample="skip", last_batch="partial", images=ImageOptions(targets=targets),
        )  # fmt: skip

    check(list(loader), 11)


def check(batches: list[Batch], num: int) -> None:
    """Everything of the batches lies on the GPU, where the loop may read it, and nothing is missing."""
    assert sum(map(len, batches)) == num
    for batch in batches:
        for tensor in tree_leaves(batch.to_dict()):
            if isinstance(tensor, torch.Tensor):
                tensor.add(0)
        assert all(view.device == DEVICE for view in batch.views)
        assert batch.labels.device == DEVICE
        assert batch.boxes is None or all(boxes.device == DEVICE for boxes in batch.boxes)
        assert batch.masks is None or batch.masks.device == DEVICE


@pytest.mark.needs_dali
@pytest.mark.parametrize("place", [long(None), 0])
@pytest.mark.parametrize("name", ["plain", "several sizes", long("views"), long("mixed")])
def test_own_pipeline(gpu: Any, photographs: Dataset, name: str, place: int | None) -> None:
    """A pipeline of the user's own, whose images lie on the CPU, or on the GPU."""
    from nvidia.dali import Pipeline, fn

    pipeline = Pipeline(batch_size=12, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(fn.decoders.image(fn.external_source(name="encoded")))
    decoder = from_dali(pipeline)
    decoder.device_id = place
    gpu.streams.dali_on_gpu = place is not None
    with gpu.waiting():
        loader = Loader(
            photographs, LOADED[name], batch_size=5, device="cuda", decoder=decoder, images=ImageOptions(targets=[]), num_threads=1,
            on_bad_sample="skip", last_batch="partial",
        )  # fmt: skip

    check(list(loader), 11)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos that DALI decodes without a GPU, one of BT.709 and one turned, and one that it refuses."""
    vp9 = {"codec": "libvpx-vp9", "options": {"deadline": "realtime", "cpu-used": "8"}}
    kinds = {"a.webm": vp9, "b.mp4": {**vp9, "rotation": 90}, "c.mp4": {}}
    return write_videos(tmp_path_factory.mktemp("videos"), kinds, 12, (144, 160))


@pytest.mark.needs_dali
@pytest.mark.parametrize(
    ("decoder", "name"),
    [("cpu", "views"), ("dali", "plain"), long("cpu", "plain"), long("dali", "views")],
)
def test_clips(
    gpu: Any, videos: Path, decoder: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clips, with colours that are corrected, turned frames, and a video that DALI refuses."""
    build, built = video_feed._build, []

    def build_without_gpu(options: PipelineOptions) -> Any:
        built.append(options.num_threads)
        return build(replace(options, device="cpu", device_id=None))

    monkeypatch.setattr(video_feed, "_build", build_without_gpu)
    for user in ("arguments.choose", "stages.dali_feeds"):
        monkeypatch.setattr(f"dali_pipes.{user}.find_nvdec", lambda _: Nvdec(3))
    monkeypatch.setattr(
        "dali_pipes.video.dali.clip_decoder.color_correction", lambda _: color_correction(1)
    )
    clips = Clips(VideoFolderDataset(videos), num_frames=4, stride=2)
    with gpu.waiting():
        loader = Loader(
            clips, LOADED[name], batch_size=2, device="cuda", decoder=decoder, num_threads=4, last_batch="partial",
        )  # fmt: skip

    check(list(loader), 3)
    assert built == ([3] if decoder == "dali" else [])  # no more decoders at once than engines


IMAGES: dict[str, Any] = {
    "one view": {"antialias": (True,)},
    "several views": {"antialias": (True, False)},
}


@pytest.mark.needs_dali
@pytest.mark.parametrize("name", [*IMAGES, "clips"])
def test_graph_has_the_inputs_that_are_fed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DALI knows the operators and arguments for a GPU, and leaves no input out; without a GPU it builds no pipeline."""
    from nvidia.dali import Pipeline

    monkeypatch.setattr(Pipeline, "build", Pipeline._build_graph)
    common = {"batch_size": 4, "device_id": 0, "num_threads": 1, "depth": 2}
    if name == "clips":
        pipeline = video_feed._build(PipelineOptions(device="mixed", **common))
        fed = {"encoded", "frames"}
    else:
        options = FeedOptions(
            device="mixed", canvases=True, hw_decoder_load=1.0, **IMAGES[name], **common
        )
        pipeline = feed._build(options)
        fed = {"encoded", *feed._pairs(options)}
    operators = {instance.name: type(instance._op).__name__ for instance in pipeline._ops}

    assert {name for name, kind in operators.items() if kind == "ExternalSource"} == fed
    assert "mixed" in {instance._op._device for instance in pipeline._ops}


def test_batches_share_compiled_kernels() -> None:
    """Triton's own launch takes our arguments, and compiles for no further number of images or size up to 224."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.triton_driver"],
        cwd=Path(__file__).resolve().parents[3],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["1", "1"]
