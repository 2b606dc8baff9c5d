"""How cost grows: the law, the readings, the charts and the command."""

import dataclasses
import json
import mmap
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from bench.cli import main
from bench.compare.timer import Rate
from bench.micro.scale_parts import (
    Build,
    Start,
    growth_mib,
    photographs_of,
    predicted_rate,
    resident_mib,
)
from bench.micro.scale_plot import draw_scale
from bench.micro.scale_result import ScaleResult, read_scale
from dali_pipes.preview import sound_samples
from gpu_aug import Recipe
from readers import open_dataset

SVG = "{http://www.w3.org/2000/svg}"


def test_prediction_is_amdahls_law() -> None:
    """A tenth that cannot be shared limits 100 images/s to 1000; two threads give 1 / (0.1 + 0.9 / 2)."""
    assert predicted_rate(100.0, 0.001, 1) == pytest.approx(100.0)
    assert predicted_rate(100.0, 0.001, 2) == pytest.approx(100 / 0.55)
    assert predicted_rate(100.0, 0.001, 10**9) == pytest.approx(1000.0)


def test_prediction_never_exceeds_the_serial_part() -> None:
    """A serial part that was measured longer than the whole leaves nothing to share."""
    assert predicted_rate(100.0, 0.02, 64) == pytest.approx(100.0)


def test_growth_leaves_the_start_out() -> None:
    """Memory that rises at first and then stays is flat; memory that rises all the time is not."""
    settled = [(at, 100.0 + min(at, 5) * 50) for at in range(20)]
    leaking = [(at, 100.0 + at * 10) for at in range(20)]

    assert growth_mib(settled) == 0.0
    assert growth_mib(leaking) == 100.0


def test_resident_memory_is_that_of_the_process() -> None:
    """Sixty-four MiB that are written to are found again."""
    before = resident_mib()
    with mmap.mmap(-1, 64 << 20) as held:  # pages of its own: an allocator may have some left
        held.write(b"1" * len(held))

        assert resident_mib() - before > 50


def test_photographs_have_the_pixels_asked_for(photos: list[Path], tmp_path: Path) -> None:
    """Half a megapixel, in the shape of the photograph."""
    samples, _ = sound_samples(open_dataset(str(photos[0].parent)), most=2)

    dataset = photographs_of(samples, 0.5, tmp_path / "sized")

    original = _size(photos[0].parent / samples[0].key)
    made = _size(tmp_path / "sized" / "0.jpg")
    assert made[0] * made[1] == pytest.approx(0.5e6, rel=0.01)
    assert made[0] / made[1] == pytest.approx(original[0] / original[1], rel=0.01)
    assert len(dataset) > 10**5


def _size(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        return image.size


def test_build_follows_what_varies(photos: list[Path]) -> None:
    """A loader gets the batch size asked for, else the common one."""
    dataset = open_dataset(str(photos[0].parent))
    build = Build(Recipe.imagenet_train(32), "cpu", "cpu", "albumentations", 4, 1)

    with build.loader(dataset) as common, build.loader(dataset, batch_size=2) as own:
        assert len(next(iter(common)).images) == 4
        assert len(next(iter(own)).images) == 2


@pytest.mark.long
def test_chart_shows_every_part(tmp_path: Path) -> None:
    """Five charts with their titles; what is computed is a dashed line."""
    rates = {1: Rate((10.0,)), 10: Rate((90.0,))}
    result = ScaleResult({}, rates, 0.001, {4: 35.0}, {0.5: Rate((8.0,))}, rates)
    result.lengths = {1000: Start(0.1, 0.2, 3.0)}
    result.memory = [(0, 100.0), (10, 110.0)]

    draw_scale(result, tmp_path / "scale.svg")

    drawn = (tmp_path / "scale.svg").read_text()
    for title in ("Threads", "Image size", "Batch size", "Dataset length", "Memory over time"):
        assert f">{title}</text>" in drawn
    assert "computed by Amdahl" in drawn
    assert "measured: median of the rounds" in drawn
    num_dashed = drawn.count("stroke-dasharray")
    draw_scale(dataclasses.replace(result, predicted={}), tmp_path / "plain.svg")
    plain = (tmp_path / "plain.svg").read_text()
    assert (
        num_dashed - plain.count("stroke-dasharray") == 2
    )  # the line, and that of its explanation
    assert "computed by Amdahl" not in plain
    assert drawn.index("fill: #ffffff") < drawn.index("axes_1")  # a ground of its own


def test_picture_of_the_documentation_is_that_of_the_result(tmp_path: Path) -> None:
    """docs/scale.svg has the words and numbers that are drawn of the result that is kept."""
    root = Path(__file__).resolve().parents[3]
    result = read_scale(root / "bench" / "results" / "cpu-scale.json")
    draw_scale(result, tmp_path / "again.svg")

    told = [
        [text.text for text in ElementTree.parse(path).getroot().iter(f"{SVG}text")]
        for path in (root / "docs" / "scale.svg", tmp_path / "again.svg")
    ]
    assert told[0] == told[1]
    assert {"1", "64", "0.1", "24", "256"} <= set(told[0])


@pytest.mark.long
def test_command_measures_every_part(photos: list[Path], tmp_path: Path) -> None:
    """A quick run fills the tables, the JSON and the picture."""
    written, plot = tmp_path / "scale.json", tmp_path / "scale.svg"
    arguments = ["--quick", "--decoder", "cpu", "--json", written, "--plot", plot]
    with pytest.raises(SystemExit) as end:
        main(["bench", "scale", str(photos[0].parent), *map(str, arguments)])

    result = json.loads(written.read_text())
    assert end.value.code == 0
    assert {row["varies"] for row in result["rows"]} == {"threads", "megapixels", "batch_size"}
    assert [row["samples"] for row in result["lengths"]] == [10**3, 10**8]
    assert result["serial_seconds_per_image"] > 0
    assert len(result["memory_mib"]) == 20
    assert ElementTree.parse(plot).getroot().tag == f"{SVG}svg"
    again = read_scale(written)
    assert [again.threads[1].median, *again.lengths] == [
        result["rows"][0]["images_per_second"]["median"],
        10**3,
        10**8,
    ]


def test_plot_must_be_an_svg(
    photos: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another suffix is refused before anything is measured."""
    with pytest.raises(SystemExit) as end:
        main(["bench", "scale", str(photos[0].parent), "--plot", str(tmp_path / "scale.png")])

    assert end.value.code == 2
    assert "must end in .svg" in capsys.readouterr().err
