"""The command line: what it prints, what it writes, and how it fails."""

import json
import logging
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from bench.cli import main
from bench.output import errors
from bench.output.arguments import source_options
from bench.output.text import name_some
from readers import open_dataset
from tests.support.commands import Run

GROUPS = {
    "": "run tune report warm preview pack audit inspect index cache doctor bench recipe",
    "bench": "compare read micro published make-videos",
    "recipe": "show convert",
}
COMMANDS = [[*group.split(), name] for group, names in GROUPS.items() for name in names.split()]
ANSWERED_AT_ONCE = [["--help"], *([*words, "--help"] for words in COMMANDS), ["--version"], ["rn"]]


def write_bad_recipe(path: Path) -> None:
    """A recipe file with a probability of 7."""
    operations = [{"name": "CenterCrop", "size": 8}, {"name": "HorizontalFlip", "p": 7}]
    path.write_text(json.dumps({"version": 1, "operations": operations}))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "missing"], "missing does not exist"),
        (["run", "texts"], "images"),
        (["run", "empty"], "or videos (.mp4"),
        (["run", "data/*"], "data/cats is a folder, and a list or a pattern names files"),
        (["run", "data", "--format", "stream"], "read from front to back"),
        (["run", "data", "--sampling", "all"], "--sampling all is for videos"),
        (["run", "data", "--batch-size", "0"], "batch_size=0"),
        (["run", "data", "--recipe", "imagenet"], "imagenet_train"),
        (["run", "data", "--recipe", "recipe.json"], "got 7"),
        (["run", "data", "--engine", "opencv"], "kornia"),
        (["run", "data", "--decoder", "gpu"], "dali"),
        (["run", "data", "--dtype", "int8"], "dtype must be one of uint8"),
        (["run", "data", "--device", "tpu"], "cuda"),
        (["run", "data", "--seed", "-1"], "seed=-1"),
        (["run", "broken", "--batch-size", "1"], "page.jpg"),
        (["bench", "compare", "missing"], "missing does not exist"),
        (["bench", "compare", "broken"], "page.jpg"),
        (["bench", "compare", "data", "--seconds", "0"], "seconds must be greater than 0, got 0"),
        (
            ["bench", "compare", "data", "--threads", "0"],
            "num_threads must be greater than 0, got 0",
        ),
        (["bench", "compare", "data", "--device", "tpu"], "cuda"),
        (["bench", "compare", "data", "--seed", "-1"], "seed must be 0 or more, got -1"),
        (["bench", "compare", "data", "--only", "torch"], "torchvision-pil"),
        (["preview", "data", "-o", "picture.txt"], "must end in .png"),
        (["tile", "data", "out", "--on", "ray", "--help"], "gpu-aug index DATA --seek-points"),
        (["index", "data", "--checkpoints"], "give --seek-points"),
        (["bench", "ops", "--quick"], "gpu-aug bench published kornia-ops"),
        (["preview", "data", "--seed", "-1"], "seed=-1"),
        (["preview", "data", "--engine", "opencv"], "kornia"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    expected: str,
    run: Run,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the user got wrong is said in one line on standard error, with exit code 2."""
    monkeypatch.chdir(data.parent)
    for name in ("empty", "texts", "broken/pages"):
        Path(name).mkdir(parents=True)
    Path("texts/notes.md").write_text("no images here")
    Path("broken/pages/page.jpg").write_text("<html>404</html>")
    write_bad_recipe(Path("recipe.json"))

    code, _, printed = run(*arguments)

    *progress, sentence = printed.splitlines()
    assert code == 2
    assert sentence.startswith("error: ")
    assert expected in sentence
    told = [
        line
        for line in progress
        if "compiling for this processor" not in line  # the first time
        and not line.startswith("this takes about")
    ]
    assert told in ([], ["looking at the images"])


def test_debug_shows_the_traceback(data: Path) -> None:
    """--debug lets the error through, wherever it stands."""
    from dali_pipes import LoaderError

    with pytest.raises(LoaderError, match="batch_size=0"):
        main(["run", "--debug", str(data), "--batch-size", "0"])


def test_a_defect_keeps_its_traceback() -> None:
    """An error that nobody raised on purpose is not turned into a sentence."""

    def broken(_: list[str]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        errors.call(broken, [])


def test_logged_warnings_are_seen(capsys: pytest.CaptureFixture[str]) -> None:
    """Once each, in the style of the console, while a command runs; less than a warning is not printed."""
    logger = logging.getLogger("gpu_aug.readers.somewhere")

    def command(_: list[str]) -> None:
        for _turn in range(2):
            logger.warning("%d of them are slow", 3)
            logger.info("nothing of note")

    errors.call(command, [])
    logger.warning("after the command")
    assert capsys.readouterr() == ("", "warning: 3 of them are slow\n")


def test_runtime_warnings_are_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    """The packages' other kind of warning is told without the place in our code, too."""

    def command(_: list[str]) -> None:
        warnings.simplefilter("always")
        warnings.warn("the cache is full", RuntimeWarning, stacklevel=1)

    errors.call(command, [])
    assert capsys.readouterr() == ("", "warning: the cache is full\n")


def test_help_does_not_wait_for_torch() -> None:
    """Help, the version and mistyped commands are answered before torch or Numba has been imported."""
    code = (
        "import sys; from contextlib import suppress; from bench.cli import main\n"
        f"for words in {ANSWERED_AT_ONCE}:\n"
        "    with suppress(SystemExit):\n"
        "        main(words)\n"
        "    assert not {'torch', 'numba', 'cv2'} & set(sys.modules), words\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: ") == sum("--help" in words for words in ANSWERED_AT_ONCE)
    assert "No such command 'rn'. Did you mean 'run'?" in done.stderr


@pytest.mark.long
def test_interrupt_ends_quietly(data: Path) -> None:
    """Ctrl-C during a run gives exit code 130 and no traceback."""
    # A test run in the background inherits that interrupts are ignored; a terminal's program does not.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"from bench.cli import main; main(['run', {str(data)!r}, '--epochs', '1000000'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()  # printed when the loader has been built
            process.send_signal(signal.SIGINT)
            _, printed = process.communicate(timeout=120)
        finally:
            process.kill()

    assert process.returncode == 130
    assert "Traceback" not in printed


def test_result_of_a_run(run: Run, data: Path, tmp_path: Path) -> None:
    """The JSON says what was run and how fast; the summary says what no batch had, as a Loader leaves it out."""
    path = tmp_path / "result.json"

    code, printed, _ = run("run", data, "--epochs", 2, "--batch-size", 4, "--json", path)

    result = json.loads(path.read_text())
    assert code == 0
    assert "16 images in 4 batches" in printed
    assert "last batch: drop, which leaves 2 out" in printed
    assert {"versions", "machine", "commit", "settings", "rows"} <= set(result)
    assert [row["images"] for row in result["rows"]] == [16]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--recipe imagenet_eval --batch-size 4", "10 images in 3 batches"),
        ("", "10 images in 1 batch"),  # fewer than the usual batch
        ("--steps 7 --batch-size 5", "35 images in 7 batches"),  # more than an epoch has
    ],
)
def test_length_of_a_run(arguments: str, expected: str, run: Run, data: Path) -> None:
    """An evaluation leaves nothing out, and steps go on into further epochs, no further than asked."""
    assert expected in run("run", data, *arguments.split())[1]


def test_run_counts_a_bad_sample_once(run: Run, data: Path) -> None:
    """It is named once though every epoch meets it, and its neighbours are handed over."""
    path = data / "cats" / "0.jpg"
    path.write_bytes(path.read_bytes()[:300])

    code, printed, _ = run("run", data, "--epochs", 3, "--on-bad-sample", "skip")

    assert code == 0
    assert "27 images" in printed
    assert printed.count("bad sample ") == printed.count("bad sample cats/0.jpg") == 1
    assert "1 bad sample, met 3 times" in printed


@pytest.mark.parametrize(
    "arguments", [["run", "data", "--json"], ["run", "data", "--ledger"], ["preview", "data", "-o"]]
)
def test_what_may_not_be_written_is_refused_first(
    arguments: list[str], run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after the work, and in words."""
    monkeypatch.chdir(data.parent)
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != data.parent / "locked")
    Path("locked").mkdir()

    code, printed, error = run(*arguments, "locked/result.png")

    assert (code, printed) == (2, "")
    assert "cannot be written to locked/result.png (permission denied)" in error


@pytest.mark.parametrize("group", GROUPS)
def test_help_lists_the_commands(run: Run, group: str) -> None:
    """Each with its first line, and no other."""
    code, printed, _ = run(*group.split(), "--help")

    assert code == 0
    assert re.findall(r"^│ ([a-z][a-z-]*) ", printed, re.MULTILINE) == GROUPS[group].split()


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("run", "--epochs 0"),
        ("run", "--steps 0"),
        ("preview", "--count 0"),
        ("preview", "--draws 1001"),
        ("preview", "--epoch -1"),
    ],
)
def test_numbers_out_of_range_are_refused(command: str, option: str, run: Run, data: Path) -> None:
    """The error names the option."""
    code, _, error = run(command, data, *option.split())
    error = re.sub(r"[\s│]+", " ", error)  # the frame around it

    assert code == 2
    assert f"Invalid value for '{option.split()[0]}'" in error  # the rest is typer's wording


def test_short_help_of_a_command(run: Run) -> None:
    """It shows the options, as --help does."""
    assert "--shard-size" in run("pack", "-h")[1]


def test_version(run: Run) -> None:
    """It is the one of the installed package."""
    assert run("--version") == (0, f"gpu-aug {metadata.version('gpu-aug')}\n", "")


@pytest.fixture
def annotated(tmp_path: Path, jpeg: Callable[..., bytes]) -> Path:
    """YOLO's folder of two splits whose outlines have four corners, beside a table with two columns of images."""
    for split, count in (("train", 3), ("val", 2)):
        for kind in ("images", "labels"):
            (tmp_path / "yolo" / kind / split).mkdir(parents=True)
        for number in range(count):
            (tmp_path / f"yolo/images/{split}/{number}.jpg").write_bytes(jpeg(60, 80))
            (tmp_path / f"yolo/labels/{split}/{number}.txt").write_text("0 .1 .1 .8 .2 .9 .9 .2 .8")
    (tmp_path / "yolo/data.yaml").write_text("names: [cat]\ntrain: images/train\nval: images/val\n")
    (tmp_path / "pairs.csv").write_text("left,right\n0.jpg,1.jpg\n1.jpg,2.jpg\n")
    return tmp_path


@pytest.mark.filterwarnings("default:.*has rows of four corners only:UserWarning")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["inspect"], "samples  3"),
        (["index"], "needs no index (format: Ultralytics YOLO)"),
        (["run", "--device", "cpu", "--batch-size", "3"], "3 images in 1 batch"),
        (["preview", "-o", "picture.png", "--count", "2"], "written: picture.png"),
    ],
)
def test_split_and_options_of_the_format(
    command: list[str],
    expected: str,
    run: Run,
    annotated: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What opens a dataset in Python opens it here, in every command that takes one."""
    monkeypatch.chdir(annotated)
    first, *others = command
    code, printed, error = run(
        first, "yolo", "--split", "train", "--option", "task=segment", *others
    )
    guessed, _, warning = run(first, "yolo", "--split", "train", *others)

    assert (code, error) == (0, "")
    assert expected in " ".join(printed.split()).replace("samples 3", "samples  3")
    assert guessed == 0
    assert "say task='obb' for oriented boxes or task='segment' for outlines" in warning


def test_splits_are_named_as_options(run: Run, annotated: Path) -> None:
    """The error says what to type here."""
    code, _, error = run("inspect", annotated / "yolo")

    assert code == 2
    assert "holds the splits train, val" in error
    assert error.endswith("open one of them, --split train\n")


def test_pack_takes_split_and_options(run: Run, annotated: Path) -> None:
    """The shards hold the split that was asked for; `--format` is that of the shards."""
    how = ("--split", "val", "--option", "task=segment", "--option", "masks=True")

    code, printed, _ = run("pack", annotated / "yolo", annotated / "shards", *how)

    assert code == 0
    assert "2 samples in 1 shard" in printed
    fields = open_dataset(annotated / "shards")[0].fields
    assert {"jpg", "json", "mask.0.png"} <= fields.keys()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["image"], "--option must be NAME=VALUE, got 'image'"),
        (["my image=left"], "--option must be NAME=VALUE, got 'my image=left'"),
        (["image=left", "image=right"], "--option image= is there twice"),
        (["split=train"], "--option split=train is an option of its own: say --split train"),
        (["multi_label=true"], "is no value of Python: say True"),
        (["classes=[cat, dog]"], "--option classes=[cat, dog] cannot be read"),
        (["imagge=left"], "has no option 'imagge': it has image, label"),
    ],
)
def test_bad_option_of_the_format(
    options: list[str], expected: str, run: Run, annotated: Path
) -> None:
    """One sentence, in which the option stands as it was written."""
    arguments = [word for option in options for word in ("--option", option)]

    code, _, error = run("inspect", annotated / "pairs.csv", *arguments)

    assert code == 2
    assert expected in " ".join(error.split())


def test_values_of_options() -> None:
    """Values are written as in Python, and what is not one is a text."""
    texts = [
        "classes=['a', 'b']",
        "masks=True",
        "mask_values={1: 0}",
        "image=left",
        "id=007",
        "n=7",
    ]

    assert source_options("csv", "val", texts) == {
        "format": "csv",
        "split": "val",
        "classes": ["a", "b"],
        "masks": True,
        "mask_values": {1: 0},
        "image": "left",
        "id": "007",
        "n": 7,
    }


@pytest.mark.parametrize("command", [["inspect"], ["index"], ["run", "--device", "cpu"]])
@pytest.mark.filterwarnings("default:.*is read without the boxes:UserWarning")
def test_warnings_are_sentences(
    command: list[str], run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What opening a dataset warns of is said, in one line that names no line of the program."""
    for path in data.rglob("*.jpg"):
        path.with_suffix(".txt").write_text("0 0.5 0.5 0.25 0.25")
    monkeypatch.chdir(data.parent)
    first, *others = command

    code, _, error = run(first, "data", *others)

    assert code == 0
    assert error.startswith("warning: ")
    assert "is read without the boxes of YOLO" in error
    assert "UserWarning" not in error
    assert error.count("\n") == error.count("warning: ")


@pytest.mark.parametrize(
    ("num_others", "expected"), [(0, "a, b"), (1, "a, b and 1 other"), (3, "a, b and 3 others")]
)
def test_names_are_followed_by_the_number_of_others(num_others: int, expected: str) -> None:
    assert name_some(["a", "b"], num_others) == expected
