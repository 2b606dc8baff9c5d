"""What data are like: kinds of images as Pillow wrote them, sizes, where they lie."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.output.errors import BenchError
from bench.tune.facts import look_at_facts, rows_of
from bench.tune.facts_kinds import kind_of
from bench.tune.facts_place import existing_part, place_of
from readers import open_dataset

WRITTEN = {
    "baseline JPEG": ("JPEG", {}),
    "progressive JPEG": ("JPEG", {"progressive": True}),
    "PNG": ("PNG", {}),
    "WebP": ("WEBP", {}),
    "GIF": ("GIF", {}),
    "BMP": ("BMP", {}),
    "TIFF": ("TIFF", {}),
}


def written(kind: str, **more: object) -> bytes:
    """A small picture in a format, by Pillow."""
    name, options = WRITTEN[kind]
    pixels = np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, name, **options, **more)
    return stream.getvalue()


@pytest.mark.parametrize("kind", WRITTEN)
def test_kinds_of_images_are_those_that_pillow_wrote(kind):
    """A progressive JPEG is told from a baseline one, as Pillow tells it."""
    data = written(kind)
    assert kind_of(data) == kind
    with Image.open(io.BytesIO(data)) as opened:
        assert bool(opened.info.get("progressive")) == (kind == "progressive JPEG")


def test_other_bytes_are_no_image():
    """Nor is a JPEG that ends before its frame header."""
    assert kind_of(b"hello") == "no image"
    assert kind_of(written("baseline JPEG")[:20]) == "no image"
    exif = Image.Exif()
    exif[0x010E] = "a description before the frame header"
    assert kind_of(written("progressive JPEG", exif=exif)) == "progressive JPEG"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Six baseline JPEGs, two progressive ones, and a text."""
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(written("baseline JPEG"))
    for number in range(6, 8):
        (tmp_path / f"{number}.jpg").write_bytes(written("progressive JPEG"))
    (tmp_path / "8.jpg").write_bytes(b"no picture")
    return tmp_path


def test_facts_of_a_folder(mixed):
    """All rows of a small folder are looked at; bytes are those of the files, pixels those of Pillow's."""
    facts, samples = look_at_facts(open_dataset(mixed), source=str(mixed))
    sizes = [path.stat().st_size for path in sorted(mixed.iterdir())[:8]]
    assert facts.kinds == {"baseline JPEG": 6, "progressive JPEG": 2}
    assert (facts.num_samples, facts.num_looked_at, facts.num_bad) == (9, 9, 1)
    assert facts.shares["progressive JPEG"] == 0.25
    assert facts.image_bytes.mean == pytest.approx(np.mean(sizes))
    assert facts.image_bytes.p90 == pytest.approx(np.percentile(sizes, 90))
    assert facts.megapixels.p50 == pytest.approx(48 * 64 / 1e6)
    assert facts.total_bytes == pytest.approx(9 * np.mean(sizes), abs=1)
    assert len(samples) == 8
    assert facts.stays_near


def test_a_large_dataset_is_sampled_evenly_and_the_same_way_each_time():
    """512 of a million rows, from all parts of it, in no order of its own."""
    rows = rows_of(1_000_000, 512)
    assert len(set(rows.tolist())) == 512
    np.testing.assert_array_equal(rows, rows_of(1_000_000, 512))
    counts, _ = np.histogram(rows, bins=8, range=(0, 1_000_000))
    assert counts.tolist() == [64] * 8
    assert (np.diff(rows) < 0).any()
    assert sorted(rows_of(5, 512)) == [0, 1, 2, 3, 4]


def test_looking_ends_when_its_time_is_over(jpeg: Callable[..., bytes], tmp_path: Path):
    """At least 16 rows are looked at."""
    for number in range(40):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(16, 16))
    facts, _ = look_at_facts(open_dataset(tmp_path), seconds=0)
    assert (facts.num_samples, facts.num_looked_at) == (40, 16)
    assert facts.place.kind == "unknown"


def test_data_without_images_are_refused(tmp_path):
    """One sentence."""
    (tmp_path / "a.jpg").write_bytes(b"no picture")
    with pytest.raises(BenchError, match="not one of 1 samples that were looked at holds an image"):
        look_at_facts(open_dataset(tmp_path))


def test_where_data_lie(tmp_path, monkeypatch):
    """A folder of this machine, a pattern in it, memory, a URL, and nothing that is known."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path))
    here = place_of(tmp_path)
    assert here.kind in ("local disk", "memory", "network disk")
    pattern = place_of(tmp_path / "train-{000..009}.tar")
    assert (pattern.kind, pattern.where) == (here.kind, here.where)
    assert existing_part(tmp_path / "no" / "*.tar") == tmp_path
    away = place_of("https://someone:secret@example.org/train-000.tar")
    assert (away.kind, away.where) == ("remote", "https://example.org")
    assert away.cache_bytes
    assert place_of(None).kind == "unknown"
    if Path("/dev/shm").is_dir():
        assert place_of("/dev/shm").kind == "memory"
    assert here.memory_bytes > 1 << 20
    assert here.cache_bytes is None
