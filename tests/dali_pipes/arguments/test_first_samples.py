"""A first sample that is bad decides nothing, and a batch that lost all of its rows has the form of the others."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import (
    BadSampleError,
    Batch,
    Clips,
    Execution,
    Field,
    ImageOptions,
    LoaderError,
    NumberMap,
)
from dali_pipes.integrations.dali import DALIGenericIterator
from dali_pipes.integrations.torch_dataset import from_torch
from dali_pipes.integrations.torchdata import LoaderDataset
from gpu_aug import CenterCrop, MixUp, Recipe, Views
from readers import mix, open_dataset
from readers.datasets.first_samples import MOST_PROBED, probed_samples
from readers.prepare.inspection.kind import holds_videos
from tests.support.loaders import loader_maker
from tests.support.small import SmallDataset
from tests.support.tars import write_samples
from tests.support.videos import pan, write_video

SIZE = 16
RECIPE = Recipe([CenterCrop(SIZE)])
NUM_SAMPLES, BATCH_SIZE = 12, 4


def png(mode: str = "RGB") -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (32, 32), 1 if mode == "L" else (9, 8, 7)).save(stream, "PNG")
    return stream.getvalue()


TARGETS = {
    "json": json.dumps(
        {"boxes": [[1, 1, 9, 9]], "labels": [1], "keypoints": [[9, 9]], "keypoint_labels": [0]}
    ).encode(),
    "mask.png": png("L"),
}


def write(folder: Path, num_bad: int, *, bad: dict[str, bytes], **fields: bytes) -> Path:
    """Write samples of which the first ones have other fields."""
    sound = {"png": png(), "cls": b"1", **fields}
    samples = {
        f"{number:02d}": {**sound, **(bad if number < num_bad else {})}
        for number in range(NUM_SAMPLES)
    }
    return write_samples(folder / "a.tar", samples)


load = loader_maker(
    RECIPE, batch_size=BATCH_SIZE, shuffle="none", on_bad_sample="skip", max_bad_samples=NUM_SAMPLES
)


@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        ({"age": float}, b"x"),
        ({"age": int}, b"3.5"),
        ({"age": "json"}, b"{"),
        (["age"], b"\xff\xfe"),
        ({"age": Field(bytes, dtype=torch.uint8, shape=(1,))}, b"33"),
    ],
    ids=["float", "int", "json", "name alone", "bytes"],
)
def test_a_bad_field_in_the_first_samples_costs_these_alone(
    tmp_path: Path, fields: Any, bad: bytes
) -> None:
    data = open_dataset(write(tmp_path, 9, bad={"age": bad}, age=b"3"))

    with load(data, fields=fields) as loader:
        sizes = [len(batch) for batch in loader]

    assert (sizes, {record.stage for record in loader.bad_samples}) == ([0, 0, 3], {"fields"})


def test_raise_names_the_first_sample_in_its_step(tmp_path: Path) -> None:
    data = open_dataset(write(tmp_path, 1, bad={"age": b"x"}, age=b"3"))
    loader = load(data, fields={"age": float}, on_bad_sample="raise", max_bad_samples=None)

    with loader, pytest.raises(BadSampleError, match=r"sample 0 .*'age'.*could not convert"):
        next(iter(loader))


def test_a_fault_of_all_samples_is_refused_at_once(tmp_path: Path) -> None:
    data = open_dataset(write(tmp_path, NUM_SAMPLES, bad={"age": b"x"}))

    with pytest.raises(
        LoaderError, match=r"'age'.*is in all samples that were looked at: give fields"
    ):
        load(data, fields={"age": float})


def test_maps_and_images_are_looked_for_in_later_samples(tmp_path: Path) -> None:
    data = open_dataset(write(tmp_path, 9, bad={"depth.png": b"?"}, **{"depth.png": png("L")}))

    with load(data, images=ImageOptions(maps={"depth": NumberMap("depth.png", scale=1)})) as loader:
        batches = list(loader)

    assert [list(batch.fields["depth"].shape) for batch in batches] == [
        [rows, 1, SIZE, SIZE] for rows in (0, 0, 3)
    ]


LOST: dict[str, Any] = {
    "threads": (RECIPE, {}),
    "helper process": (RECIPE, {"execution": Execution(helper_process=True)}),
    "views": (Views([RECIPE, RECIPE]), {"images": ImageOptions(targets=[])}),
    "mixed labels": (
        Recipe([CenterCrop(SIZE), MixUp(num_classes=3)]),
        {"images": ImageOptions(targets=[])},
    ),
}


def form(batch: Batch) -> dict[str, Any]:
    """What a batch has, without its number of rows."""
    return {
        name: [view.shape[1:] for view in value]
        if name == "views"
        else (value.dtype, value.shape[1:])
        if isinstance(value, torch.Tensor)
        else type(value)
        for name, value in batch.to_dict().items()
    }


@pytest.mark.parametrize(
    ("way", "stream"),
    [
        *((way, stream) for way in LOST if way != "helper process" for stream in (False, True)),
        pytest.param("helper process", False, marks=pytest.mark.long),
        pytest.param("helper process", True, marks=pytest.mark.long),
    ],
)
def test_a_batch_without_rows_has_the_form_of_the_others(
    tmp_path: Path, way: str, stream: bool
) -> None:
    recipe, options = LOST[way]
    path = write(tmp_path, 5, bad={"png": b"no image"}, age=b"3", **TARGETS)
    data = open_dataset(path, format="stream") if stream else open_dataset(path)

    with load(data, recipe, fields={"age": float}, **options) as loader:
        empty, part, whole = list(loader)

    assert [len(batch) for batch in (empty, part, whole)] == [0, 3, 4]
    assert form(empty) == form(whole) == form(part)
    assert ("boxes" in empty) == ("images" not in options)
    assert part.keys == [key for key in part.keys if int(key[-2:]) >= 5]
    assert part.indices.tolist() == [5, 6, 7] or stream
    assert len(part.labels) == len(part.valid) == 3


def test_a_batch_without_rows_has_the_kinds_of_all_samples(tmp_path: Path) -> None:
    """The first sample with targets has boxes alone; masks and keypoints come later."""
    boxes = {"json": json.dumps({"boxes": [[1, 1, 9, 9]], "labels": [0]}).encode()}
    others = (
        [{"png": b"no image"}] * 4 + [{"png": png()} | boxes] * 4 + [{"png": png()} | TARGETS] * 4
    )
    samples = {f"{number:02d}": {"cls": b"1"} | one for number, one in enumerate(others)}

    with load(open_dataset(write_samples(tmp_path / "a.tar", samples))) as loader:
        empty, _, whole = list(loader)

    assert form(empty) == form(whole)
    assert empty.masks is not None


def test_vectors_of_labels_keep_their_length(tmp_path: Path) -> None:
    data = open_dataset(write(tmp_path, 4, bad={"png": b"no image"}))
    vectors = np.arange(3 * NUM_SAMPLES, dtype=np.float32).reshape(-1, 3)
    ragged = [vectors[row, : 1 + row % 3] for row in range(NUM_SAMPLES)]

    with load(data.with_labels(vectors)) as loader:
        empty = next(iter(loader))
    with load(data.with_labels(ragged)) as loader:
        assert next(iter(loader)).labels == []
    assert empty.labels.shape == (0, 3)
    assert (empty.boxes, empty.masks) == (None, None)  # data without targets still has none


def test_adapters_pass_empty_batches_on(tmp_path: Path) -> None:
    data = open_dataset(write(tmp_path, 4, bad={"png": b"no image"}, **TARGETS))

    with load(data) as loader:
        [first] = next(DALIGenericIterator(loader, ["data", "label", "boxes"]))
    with load(data) as loader:
        other = next(iter(LoaderDataset(loader)))

    assert (first["data"].shape, first["label"].shape) == ((0, 3, SIZE, SIZE), (0, 1))
    assert first["boxes"] == other.boxes == []


def test_clips_that_are_all_lost(tmp_path: Path) -> None:
    (tmp_path / "0.mp4").write_bytes(b"no video")
    write_video(tmp_path / "1.mp4", pan(4, (32, 32)))
    clips = Clips(open_dataset(tmp_path), num_frames=2, stride=1)

    with load(clips, batch_size=1) as loader:
        batches = list(loader)

    assert (clips.num_frames, form(batches[0])) == (2, form(batches[-1]))


class Items:
    """A Dataset of PyTorch whose first items cannot be read."""

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> Any:
        if index < 3:
            raise ValueError("torn")
        return Image.new("RGB", (32, 32)), np.zeros(5, np.float32)


def test_the_form_of_labels_is_not_that_of_a_first_item_that_cannot_be_read() -> None:
    data = from_torch(Items(), fingerprint="items")

    assert data.label_shape == (5,)
    with load(data) as loader:
        assert [len(batch) for batch in loader] == [1, 4, 4]


@pytest.mark.parametrize(
    ("length", "first_sound", "found"),
    [(1, 0, [0]), (5, 2, [2, 3, 4]), (1000, 985, [990]), (1000, 999, []), (0, 0, [])],
)
def test_probed_samples_are_spread_and_sound(
    length: int, first_sound: int, found: list[int]
) -> None:
    data = SmallDataset([b""] * first_sound + [b"sound"] * (length - first_sound), [0] * length)

    assert [sample.index for sample in probed_samples(data)] == found
    assert len(data.fetched) <= MOST_PROBED


def test_mixing_unlabelled_data_with_a_bad_first_sample(tmp_path: Path) -> None:
    """Its first sample says as little of its labels as of its classes."""
    samples = {f"{row:02d}": {"png": png()} for row in range(NUM_SAMPLES)}
    samples["00"] = {"txt": b"no image"}
    data = open_dataset(write_samples(tmp_path / "a.tar", samples))

    with pytest.warns(UserWarning, match="seems to have none"):
        load(data, Recipe([CenterCrop(SIZE), MixUp()])).close()


def test_the_kind_of_data_is_told_by_a_sample_that_can_be_read(tmp_path: Path) -> None:
    data = open_dataset(write(tmp_path, 0, bad={}))
    torn = open_dataset(write_samples(tmp_path / "b.tar", {"0": {"png": b""}, "1": {"png": png()}}))

    assert not holds_videos(data)
    with pytest.raises(LoaderError, match="takes a dataset of videos"):
        Clips(torn, num_frames=2, stride=1)
    mixed = mix([data, torn], weights=[1, 1])
    with load(mixed, fields={"cls": Field(str, default="")}, last_batch="partial") as loader:
        assert sum(map(len, loader)) > 0
