"""The page about data says what lies there, shows it, and lets nothing of it in."""

import base64
import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pytest
from PIL import Image

from bench.report.log import read_log
from bench.report.numbers import size
from bench.report.pictures import bad_pictures
from bench.report.write import data_page, run_page
from dali_pipes.decode.check import CHECKS
from readers import BadSample
from readers.prepare import inspect
from readers.prepare.inspection.findings import MOST_LISTED
from readers.prepare.source import open_source
from tests.support import annotated, report_pages, run_logs
from tests.support.lerobot import TOP, Robot
from tests.support.videos import pan, write_video

Jpeg = Callable[..., bytes]


def page_of(source: Path, *, verify: bool = False, **options: Any) -> Element:
    """The page about data."""
    found = inspect(
        open_source(str(source), **options), verify=CHECKS if verify else None, num_workers=1
    )
    return report_pages.parse(data_page(str(source), found))


def pictures(page: Element) -> list[Image.Image]:
    """All pictures of a page, decoded."""
    found = []
    for one in page.iter("img"):
        kind, _, text = one.attrib["src"].partition(",")
        if kind != "data:image/webp;base64":
            continue
        image = Image.open(io.BytesIO(base64.b64decode(text)))
        times = max(1, 96 // max(image.size))
        shown = int(one.attrib["height"]), int(one.attrib["width"])
        assert shown == (times * image.height, times * image.width)
        found.append(image.convert("RGB"))
    return found


@pytest.fixture
def folder(tmp_path: Path, jpeg: Jpeg) -> Path:
    """Twelve images of cats, three of dogs, a large progressive one, and a PNG."""
    root = tmp_path / "data"
    for name, count in (("cat", 12), ("dog", 3)):
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number:02d}.jpg").write_bytes(jpeg(40, 60 + number, seed=number))
    gradient = np.linspace(0, 255, 300 * 200 * 3).reshape(300, 200, 3).astype(np.uint8)
    Image.fromarray(gradient).save(root / "dog" / "large.jpg", progressive=True)
    Image.fromarray(gradient[:50]).save(root / "dog" / "small.png")
    return root


def test_what_is_there(folder: Path) -> None:
    """Counts, sizes, formats and classes are those of the files."""
    page = page_of(folder)
    sizes = [path.stat().st_size for path in folder.rglob("*.*")]

    assert report_pages.tiles(page, "data") == {
        "samples": "17",
        "size": size(sum(sizes)),
        "classes": "2",
        "bad samples": "0",
    }
    formats = report_pages.rows(page, "Formats")
    assert {name: cells[0] for name, cells in formats.items()} == {
        "jpeg": "16",
        "jpeg: baseline": "15",
        "jpeg: progressive": "1",
        "png": "1",
    }
    assert report_pages.rows(page, "All classes") == {
        "0 cat": ["12", "70.6 %"],
        "1 dog": ["5", "29.4 %"],
    }
    assert report_pages.rows(page, "In pixels")["height"] == ["40", "40", "40", "300", "300"]
    assert "the headers of all samples were read, and no picture was decoded" in (
        report_pages.text_of(page)
    )


def test_samples_are_shown(folder: Path) -> None:
    """Samples of all of the data have pictures, at most 168 pixels high and wide, that look like them."""
    page = page_of(folder)
    shown = pictures(page)
    keys = [report_pages.text_of(one) for one in report_pages.section(page, "samples").iter("code")]

    assert 6 <= len(shown) == len(keys) <= 12
    assert max(max(image.size) for image in shown) <= 168
    for key, image in zip(keys, shown, strict=True):
        with Image.open(folder / key) as file:
            original = np.asarray(file.convert("RGB").resize(image.size), np.float32)
        assert np.abs(np.asarray(image, np.float32) - original).mean() < 20


def test_damaged_samples_are_shown(folder: Path) -> None:
    """What can be decoded of a damaged file is there, the rest is gray, and nothing stands for a text."""
    path = folder / "dog" / "large.jpg"
    with Image.open(path) as whole:
        whole.load()
        whole.save(path, quality=95)
        top = np.asarray(whole.convert("RGB"))[:20].mean((0, 1))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (folder / "cat" / "05.jpg").write_bytes(b"<html>404</html>")
    page = page_of(folder, verify=True)

    assert report_pages.tiles(page, "data")["bad samples"] == "2"
    assert list(report_pages.rows(page, "List of 2 bad samples")) == ["5", "15"]
    [picture] = pictures(report_pages.section(page, "broken"))
    pixels = np.asarray(picture, np.float32)
    assert np.abs(pixels[:8].mean((0, 1)) - top).max() < 12
    assert np.abs(pixels[-20:] - 128).max() < 6
    shown = {
        report_pages.text_of(one) for one in report_pages.section(page, "samples").iter("code")
    }
    assert not shown & {"dog/large.jpg", "cat/05.jpg"}
    assert "--verify" not in report_pages.text_of(page)


def test_damaged_images_that_decode_are_shown(folder: Path) -> None:
    """They have a section of their own, and are no bad samples."""
    path = folder / "cat" / "05.jpg"
    whole = path.read_bytes()
    path.write_bytes(whole[:-60] + whole[-2:])
    page = page_of(folder, verify=True)

    assert report_pages.tiles(page, "data")["bad samples"] == "0"
    assert list(report_pages.rows(page, "List of 1 damaged image")) == ["5"]
    section = report_pages.section(page, "damaged")
    assert "damaged: the scan ends too early" in report_pages.text_of(section)
    assert len(pictures(section)) == 1


def test_names_from_the_data_are_text(tmp_path: Path, jpeg: Jpeg) -> None:
    """No class, file, field or reason becomes an element, and control characters are no error."""
    evil = "<script>alert(1)<"
    root = tmp_path / "data"
    (root / evil).mkdir(parents=True)
    names = [
        '"><img src=x onerror=alert(2)>.jpg',
        "&lt;b&gt;.jpg",
        "a\x1b[31m\x08.jpg",
        "b\udcff.jpg",
    ]
    for number, name in enumerate(names):
        (root / evil / name).write_bytes(jpeg(20, 20, seed=number))
    (root / evil / "]]><!--<style>.jpg").write_bytes(b"<svg onload=alert(3)>")
    page = page_of(root, verify=True)

    assert report_pages.loads(page) == []
    text = report_pages.text_of(page)
    for word in (
        "<script>alert(1)<",
        names[0],
        names[1],
        "a\ufffd[31m\ufffd.jpg",
        "]]><!--<style>.jpg",
    ):
        assert word in text
    assert not list(page.iter("script"))
    assert len(list(page.iter("style"))) == 1
    assert len(pictures(page)) == 4


def test_words_of_a_log_are_text(tmp_path: Path) -> None:
    """Nothing that stands in a log becomes an element either, wherever it stands."""
    evil = "</title></style><script>alert(1)</script>"
    told = json.loads(json.dumps(list(run_logs.lines(3)), default=str).replace("decode", evil))
    told[0] |= {"data": evil, "recipe": evil, "explain": f"{evil}: {evil}", evil: {evil: [evil]}}
    told[-1]["coverage"]["epoch"] = evil
    told.insert(2, {"kind": "bad_sample", **run_logs.bad_record(evil, 0, evil)})
    log = read_log(run_logs.write(tmp_path / "run.jsonl", told))

    page = report_pages.parse(run_page(log, None, evil))

    assert report_pages.loads(page) == []
    assert len(list(page.iter("style"))) == 1
    assert report_pages.text_of(page).count(evil) > 10


def test_a_page_is_whole_in_itself(folder: Path) -> None:
    """It loads nothing, and tells browsers to load nothing; its parts have names for those who do not see them."""
    page = page_of(folder)

    assert report_pages.loads(page) == []
    [policy] = [
        one.get("content", "") for one in page.iter("meta") if "Policy" in one.get("http-equiv", "")
    ]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert page.get("lang") == "en"
    assert [one.tag for one in page.iter() if one.tag in ("h1", "h2")] == ["h1"] + ["h2"] * 6
    links = [one.get("href", "")[1:] for one in page.iter("a")]
    assert links == [one.get("id") for one in page.iter("section")]
    assert all(one.get("alt") for one in page.iter("img"))
    assert all(one.get("scope") in ("row", "col") for one in page.iter("th"))
    assert set(report_pages.charts(page)) == {"Heights and widths"}
    ids = [one.get("id") for one in page.iter() if one.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "part",
    [
        "<script>1</script>",
        "<img src='https://a.example/b.png'/>",
        "<a href='javascript:alert(1)'>x</a>",
        "<link href='#' rel='x'/>",
        "<p onclick='x'>x</p>",
        "<style>p { background: url(b.png) }</style>",
        "<style>@import 'b.css';</style>",
    ],
)
def test_what_would_be_loaded_is_noticed(part: str) -> None:
    """Negative control: a page with any of these is not whole in itself."""
    page = report_pages.parse(f"<!DOCTYPE html>\n<html><body>{part}</body></html>")

    assert report_pages.loads(page)


def test_a_thousand_classes(folder: Path) -> None:
    """The ends have tables, and the list of all is folded."""
    found = inspect(open_source(str(folder)), num_workers=1)
    found.labels = Counter({label: max(1, 300 // (label + 1)) for label in range(1000)})
    page = report_pages.parse(data_page("data", found))

    largest = report_pages.rows(page, "The largest")
    assert [largest[name][0] for name in ("0 cat", "1 dog", "2")] == ["300", "150", "100"]
    assert len(report_pages.rows(page, "The smallest")) == 10
    assert len(report_pages.rows(page, "All 1,000 classes")) == 1000
    # 2 * 1241 of 2,467 samples are in the first 36 classes, and no half in fewer.
    expected = "300 times as many samples as the smallest, and the 36 largest hold half"
    assert expected in report_pages.text_of(page)
    assert next(page.iter("details")).get("open") is None


def test_boxes_are_counted_and_drawn(tmp_path: Path) -> None:
    """Boxes and masks of samples are told, and drawn on their pictures."""
    image = annotated.picture(kind="JPEG")
    annotated.write_yolo(
        tmp_path, image, *([annotated.yolo_row()] * 2), yaml="train: images/train\nnames: [a, b]\n"
    )
    page = page_of(tmp_path / "data.yaml")

    assert "2 boxes in 2 samples" in report_pages.text_of(report_pages.section(page, "fields"))
    drawn, again = pictures(report_pages.section(page, "samples"))
    assert np.array_equal(drawn, again)
    with Image.open(io.BytesIO(image)) as original:
        plain = np.asarray(original.convert("RGB").resize(drawn.size), np.float32)
    assert np.abs(np.asarray(drawn, np.float32) - plain).max() > 60


def test_videos(tmp_path: Path) -> None:
    """Codecs, rates, durations, and the first frame of each."""
    (tmp_path / "a").mkdir()
    for number, length in enumerate((10, 20)):
        write_video(tmp_path / "a" / f"{number}.mp4", pan(length, (48, 64), seed=number))
    page = page_of(tmp_path)

    text = report_pages.text_of(report_pages.section(page, "videos"))
    assert "30 frames" in text
    rates = report_pages.rows(page, "Videos by frames per second")
    assert sum(int(cells[0]) for cells in rates.values()) == 2
    assert [image.size for image in pictures(page)] == [(64, 48)] * 2
    named = ((1, "a/1.mp4#0"), (1, "a/0.mp4#0"), (7, "a/7.mp4#0"))
    bad = [BadSample(index, key, "decode", "damaged") for index, key in named]
    drawn = bad_pictures(open_source(str(tmp_path)), bad)
    assert [(one.height, one.fault) for one in drawn] == [
        (48, ""),
        (0, "sample 1 is another one in the data as it is now"),
        (0, "the data has no sample 7 now"),
    ]


def test_frames_of_robots_and_folders(tmp_path: Path) -> None:
    """A robot's sample is shown as the frame that it is, a folder of frames as its first one."""
    made = Robot()
    made.write(tmp_path / "robot")
    written = made.frames(TOP).astype(np.float32)
    for number, image in enumerate(pictures(page_of(tmp_path / "robot"))):
        distances = np.abs(written - np.asarray(image, np.float32)).mean((1, 2, 3))
        assert distances.argmin() == 2 * number
    folder = tmp_path / "frames" / "a" / "video"
    folder.mkdir(parents=True)
    for number in range(3):
        Image.new("RGB", (20, 10), (80 * number, 0, 0)).save(folder / f"{number}.png")
    [frame] = pictures(page_of(tmp_path / "frames", format="frame-folder"))

    assert frame.size == (20, 10)
    assert np.asarray(frame)[..., 0].max() < 20


def test_nothing_can_be_read(tmp_path: Path) -> None:
    """Data of which every sample is bad has a page: no sizes, no pictures, all reasons."""
    (tmp_path / "a").mkdir()
    for number in range(3):
        (tmp_path / "a" / f"{number}.jpg").write_bytes(b"" if number else b"no image")
    page = page_of(tmp_path, verify=True)

    text = report_pages.text_of(report_pages.section(page, "broken"))
    assert "empty" in text
    assert "not an image: starts with" in text
    assert report_pages.tiles(page, "data")["bad samples"] == "3"
    assert not list(page.iter("img"))
    assert "Of the first 3 none can be decoded at all." in report_pages.text_of(page)
    assert [one.get("id") for one in page.iter("section")] == [
        "data",
        "classes",
        "fields",
        "broken",
    ]


def test_a_stream(tmp_path: Path) -> None:
    """Of what is read from front to back there are counts, and no pictures."""
    path = tmp_path / "data.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(3):
            content = annotated.picture(kind="JPEG") if number else b"no image"
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    page = page_of(path, format="stream")

    assert report_pages.tiles(page, "data")["bad samples"] == "1"
    assert report_pages.rows(page, "Formats")["jpeg"][0] == "2"
    assert not list(page.iter("img"))


def test_large_data_makes_no_large_page(folder: Path) -> None:
    """Most different shapes, classes and bad samples that an inspection keeps make a page of less than 1.5 MB."""
    found = inspect(open_source(str(folder)), num_workers=1)
    found.labels = Counter({label: 1 + label % 700 for label in range(100_000)})
    sides = np.random.default_rng(0).integers(1, 9000, (10_000, 2)).tolist()
    found.shapes = Counter(dict.fromkeys(map(tuple, sides), 100))
    for index in range(MOST_LISTED + 5):
        found.add_bad(BadSample(index, f"folder/{index}.jpg", "decode", f"reason {index} " * 99))
    page = data_page("data", found)

    assert len(page) < 1_500_000
    text = report_pages.text_of(report_pages.parse(page))
    assert "5 more are counted and not listed" in text
    assert "List of the first 500 of 10,000 bad samples" in text
    assert "The largest 2,000 of 100,000 classes" in text
