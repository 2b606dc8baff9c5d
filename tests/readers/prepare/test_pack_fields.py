"""Whatever fields, keys and labels are called, they are read back from the shards as they were."""

import io
import os
import re
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from dali_pipes.decode.check import CHECKS
from readers import BadSample, Sample, open_dataset
from readers.prepare import PrepareError, inspect, pack, packing
from readers.prepare.errors import TransientError
from readers.prepare.packer import Packed, Packer, header
from tests.support.commands import Run
from tests.support.extent import EVERYTHING
from tests.support.packed import (
    Jpeg,
    by_webdataset,
    samples_of,
    shards_in,
)


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [
        ("a.jpg", 0),
        ("n01/" + "x" * 96, 2_000),
        ("n01/" + "x" * 97, 2_000),
        ("ü.jpg", 12_345),
        ("a.jpg", 8**11 - 1),
        ("a.jpg", 8**11),
    ],
)
def test_headers_are_those_of_tarfile(name: str, size_bytes: int) -> None:
    """Plain headers are made without tarfile, and are the same bytes."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size_bytes, 0o644

    assert header(name, size_bytes) == info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


FIELD_NAMES = (
    *(
        "cls",
        "CLS",
        "cls.bin",
        "label",
        "target",
        "key",
        "key.bin",
        "__key__",
        "image",
        "png",
        "jpg",
    ),
    *("JPG", "png.bin", "json", "mask.png", "mask/png", "seg.png", "A", "a", "a/b", "a.b", "a/jpg"),
    *("left.jpg", "\0", "", "\udcff", "b\n", "left/jpg", "\x85", "ü", "Ü"),
)


KEYS = ("x", "a.b", "../x", "/etc/x", "a\0b", "a\0c", ".", "..", "", "__x__", "a/../b", "\udcffz")


@cache
def picture(kind: str, seed: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4), (seed, 0, 0)).save(stream, kind)
    return stream.getvalue()


class Memory:
    """A dataset of samples that are handed in, of a source that is not WebDataset's."""

    fingerprint, class_names = "0" * 32, ()

    def __init__(self, samples: list[Sample]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def fetch(self, indices: object) -> list[Sample]:
        """See `readers.Dataset`."""
        return [self._samples[index] for index in np.asarray(indices)]


@st.composite
def samples(draw: st.DrawFn) -> list[Sample]:
    made = []
    for index in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from(FIELD_NAMES), min_size=1, max_size=9, unique=True))
        label = draw(st.sampled_from([-1, 0, 7]))
        key = draw(st.sampled_from(KEYS))
        texts = [b"7", b"0", b"dog", b" 07", b"-1", os.fsencode(key), b"x", b"", picture("PNG", 99)]
        fields = {name: draw(st.sampled_from(texts)) for name in names}
        images = [name for name in names if name.rpartition(".")[2] in ("jpg", "png")]
        images = [name for name in images if name not in ("mask.png", "seg.png")]
        image_field = draw(st.sampled_from([None, *names]))
        image = image_field
        if image is None and images:
            image = images[0]
        if image is not None:
            fields[image] = picture(draw(st.sampled_from(["JPEG", "PNG"])), index)
        made.append(Sample(index, f"s.bin/{key}", fields, label, image_field=image_field))
    return made


@pytest.mark.filterwarnings("ignore:.*which may each be the")
@pytest.mark.parametrize("kind", ["tar", pytest.param("parquet", marks=pytest.mark.long)])
@settings(
    max_examples=150 if EVERYTHING else 25, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(given_samples=samples())
def test_whatever_fields_are_called_they_are_read_back(
    kind: str, given_samples: list[Sample]
) -> None:
    """Image and label stay what they are, and every other field is there with its bytes, whatever its name."""
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        given_samples = [sample for sample in given_samples if sample.image is not None]
        assume(given_samples)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        out = Path(folder) / "out"
        patch.setattr(packing, "open_source", lambda *_, **__: Memory(given_samples))
        pack("memory", out, format=kind, num_workers=1)
        found = samples_of(out)

        assert len(found) == len(given_samples)
        assert len({sample.key for sample in found}) == len(found)
        for before, after in zip(given_samples, found, strict=True):
            assert (after.label, after.image is None) == (before.label, before.image is None)
            assert bytes(after.image or b"") == bytes(before.image or b"")
            own = os.fsencode(after.key.partition("/")[2])
            needed = Counter(
                bytes(data)
                for name, data in before.fields.items()
                if not (name == "key" and re.fullmatch(re.escape(data) + rb"(-\d)?", own))
                and not (name in ("label", "cls") and data == b"%d" % before.label)
            )
            there = Counter(bytes(data) for data in after.fields.values())
            told = {bytes(after.fields.get(name, b"")) for name in ("key", "label", "cls")}
            assert needed <= there
            assert set(there - needed) <= told  # nothing that was not there
        if kind == "tar":
            assert len(by_webdataset(out)) == len(found)
            for shard in shards_in(out):
                with tarfile.open(shard) as archive:
                    for name in archive.getnames():
                        assert not name.startswith("/")
                        assert ".." not in name.split("/")
                        assert name.isprintable() or "\udcff" in name


def packed_fields(sample: Sample, *, in_tar: bool) -> dict[str, bytes]:
    [packed] = Packer(None, None, headers=in_tar, copied=True)([sample])
    assert isinstance(packed, Packed)
    return {name: bytes(data) for name, data in packed.fields}


@pytest.mark.parametrize("in_tar", [True, False])
def test_fields_that_clash_have_names_of_their_own(in_tar: bool) -> None:
    """The image has the first right to its extension, then come names that stay as they are."""
    image, mask = picture("PNG", 0), picture("PNG", 1)
    fields = {"png": mask, "image": image, "A": b"1", "a": b"2", "s/x": b"3", "s.x": b"4"}
    sample = Sample(0, "t/k", {**fields, "cls": b"dog", "target": b"7"}, 7, image_field="image")

    found = packed_fields(sample, in_tar=in_tar)

    expected = {"png": image, "png.bin": mask, "a": b"2", "a.bin": b"1", "s.x": b"4"}
    expected |= {"s.x.bin": b"3", "cls.bin": b"dog", "target": b"7"}
    assert found == expected | ({"cls": b"7"} if in_tar else {})
    assert next(iter(found)) == "png"


def test_labels_are_those_of_the_source(run: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """A text called cls does not hide the class number, in either kind of shard."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"image": [jpeg(9, 9)] * 3, "label": [0, 1, 2], "cls": ["cat", "dog", "7"]}
    pq.write_table(pa.table({**columns, "target": [0, 9, 9]}), tmp_path / "s.parquet")
    for kind in ("tar", "parquet"):
        run("pack", tmp_path / "s.parquet", tmp_path / kind, "--format", kind)
        found = samples_of(tmp_path / kind)

        assert [sample.label for sample in found] == [0, 1, 2]
        assert [bytes(sample.fields["cls.bin"]) for sample in found] == [b"cat", b"dog", b"7"]
        assert [bytes(sample.fields["target"]) for sample in found] == [b"0", b"9", b"9"]


def test_vectors_are_refused_before_anything_is_made(tmp_path: Path, jpeg: Jpeg) -> None:
    """Labels that no shard holds: the error says what packs, and no folder is left."""
    (tmp_path / "a.jpg").write_bytes(jpeg(9, 9))
    (tmp_path / "multi.csv").write_text("image,tags\na.jpg,x|y\n")
    with pytest.raises(PrepareError, match="vectors as labels, and shards hold class numbers"):
        pack(
            str(tmp_path / "multi.csv"),
            tmp_path / "out",
            label="tags",
            label_separator="|",
            num_workers=1,
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("every_payload_is_long")
@pytest.mark.parametrize("tool", ["pack", "inspect", "inspect --verify"])
def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path, jpeg: Jpeg, tool: str) -> None:
    """Its sample is bad, nothing is packed without it, and whoever looks into it lives on."""
    path = tmp_path / "a.tar"
    (tmp_path / "photo.jpg").write_bytes(jpeg(40, 60))
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "photo.jpg", "photo.jpg")
    [sample] = open_dataset(path).fetch([0])
    assert isinstance(sample, Sample)
    os.truncate(path, 0)

    if tool == "pack":
        packer = Packer(None, None, headers=True, copied=False)
        with pytest.raises(
            TransientError, match=r"a.tar/photo cannot be read .*it has shrunk from"
        ):
            packer([sample])
        return
    [bad] = inspect(Memory([sample]), verify=CHECKS if tool.endswith("verify") else None).bad

    assert (bad.index, bad.stage) == (0, "read")
    assert "it has shrunk from" in bad.reason


def test_labels_that_cannot_be_read_back_are_refused() -> None:
    """A class number of 19 digits is a bad sample and no other number."""
    sample = Sample(4, "t/k", {"jpg": picture("JPEG", 0)}, 10**18)

    [refusal] = Packer(None, None, headers=True, copied=False)([sample])

    assert refusal.bad == BadSample(  # type: ignore[union-attr]
        4, "t/k", "read", f"its label {10**18} has more than 18 digits"
    )


def test_names_that_clash_get_keys_of_their_own(run: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """Dots, equal stems, odd characters and reserved names make neither doubles nor losses."""
    names = [
        "__misc__/a.jpg",
        "b.c/a.jpg",
        "b.c/a.png",
        "b.c/a_1.jpg",
        "b.c/a.1.jpg",
        "b.c/ü \udcff.jpg",
        f"b.c/{'long' * 50}.jpg",
    ]
    for number, name in enumerate(names):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(20, 30, seed=number))

    run("pack", tmp_path / "source", tmp_path / "out")

    found, ours = by_webdataset(tmp_path / "out"), samples_of(tmp_path / "out")
    assert len({sample["__key__"] for sample in found}) == len(found) == len(ours) == len(names)
    assert [sample.label for sample in ours] == [0, 1, 1, 1, 1, 1, 1]
    assert sorted(bytes(sample.image or b"") for sample in ours) == sorted(
        jpeg(20, 30, seed=number) for number in range(len(names))
    )
    assert found[0]["__key__"] == "x__misc__/a"
    assert {"b.c/a", "b.c/a-2", "b.c/a_1", "b.c/a_1-2"} <= {sample["__key__"] for sample in found}
