"""Peers: environments of their own, the lines between the processes, and who is in the line-up."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bench.baselines.peers import catalog, install
from bench.baselines.peers.far import PeerError
from bench.baselines.peers.process import PeerProcess, spec_of
from bench.baselines.peers.serve import serve
from bench.baselines.peers.spec import Spec
from bench.compare import lineup as lining
from bench.compare.compare import Settings, compare
from bench.compare.contestant import Footing, Unable
from bench.compare.lineup import Entry, lineup
from bench.compare.ratios import ratios
from bench.compare.result import Row
from bench.compare.timer import Rate
from bench.output.errors import BenchError
from gpu_aug import Recipe
from readers import open_dataset

ROOT = Path(__file__).resolve().parents[3]

PIPELINE = """
import os, time, torch
NOTE = "black images"
def num_ahead(spec):
    return 3
def batches(spec):
    print("this is not an answer")
    assert spec.folder.is_dir() and not list(spec.folder.iterdir())
    for number in range({batches}):
        time.sleep(0.002)
        yield torch.zeros(spec.batch_size, 3, *spec.recipe.fixed_size, dtype=spec.dtype)
    {then}
"""


@pytest.fixture
def footing(photos: list[Path]) -> Footing:
    """Photographs on the CPU, two in a batch."""
    return Footing(
        open_dataset([str(path) for path in photos]),
        photos,
        [0] * len(photos),
        Recipe.imagenet_train(),
        batch_size=2,
        device=torch.device("cpu"),
        num_threads=2,
        seed=0,
        dtype=torch.bfloat16,
    )


def fake_command(folder: Path, *, batches: str = "10**9", then: str = "") -> list[str]:
    """What starts a far side without an environment of its own."""
    (folder / "fake_pipeline.py").write_text(PIPELINE.format(batches=batches, then=then))
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(folder)!r}]\n"
        "from bench.baselines.peers.serve import main; main('fake_pipeline')"
    )
    return [sys.executable, "-c", code]


@pytest.fixture
def peer(footing: Footing, tmp_path: Path) -> Iterator[PeerProcess]:
    """A peer that makes black images."""
    process = PeerProcess("fake", footing, fake_command(tmp_path))
    yield process
    process.close()


# The lines between the processes.


def test_a_peer_describes_its_batches_and_times_them(peer: PeerProcess) -> None:
    """It is opened, says what it makes, and counts whole batches by its own clock; what it prints is no answer."""
    peer.open()
    made = peer.made()
    turn = peer.turn(0.1)

    assert (made.shape, made.dtype) == ((2, 3, 224, 224), torch.bfloat16)
    assert (peer.note, peer.num_ahead, peer.num_discard) == ("black images", 3, 5)
    assert turn.images % 2 == 0
    assert turn.seconds >= 0.1
    assert 0 < turn.images <= turn.seconds / 0.002 * 2  # a batch takes 2 ms and more


def command_with_child(folder: Path) -> list[str]:
    """As `fake_command`; the pipeline also starts a process, and leaves its number in a file."""
    command = fake_command(folder)
    start = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    note = f"open({str(folder / 'pid')!r}, 'w').write(str({start}.pid))"
    with (folder / "fake_pipeline.py").open("a") as file:
        file.write(f"import subprocess, sys\n{note}\n")
    return command


@pytest.mark.long
def test_a_closed_peer_leaves_nothing_behind(footing: Footing, tmp_path: Path) -> None:
    """Its process and the processes that it has started end."""
    peer = PeerProcess("fake", footing, command_with_child(tmp_path))

    peer.open()
    child = int((tmp_path / "pid").read_text())
    assert _runs(child)
    peer.close()

    assert _ends(child)


@pytest.mark.long
def test_workers_end_when_the_near_side_does(footing: Footing, tmp_path: Path) -> None:
    """The end of the input, as when this process is killed, ends the far side's whole group."""
    (tmp_path / "data").mkdir()
    spec_of(footing, tmp_path / "data").write(tmp_path / "spec.json")
    question = json.dumps({"do": "open", "spec": str(tmp_path / "spec.json")})
    far = subprocess.Popen(
        command_with_child(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    far.communicate(question + "\n", timeout=60)

    assert _ends(int((tmp_path / "pid").read_text()))


def _ends(pid: int) -> bool:
    until = time.monotonic() + 60
    while _runs(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Without a parent that waits for it, an ended process may stay as a zombie.
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().split(")")[1].split()[0] != "Z"


@pytest.mark.long
def test_a_crash_in_a_turn_has_its_traceback(footing: Footing, tmp_path: Path) -> None:
    """What a pipeline raises arrives with its name and the far side's traceback."""
    command = fake_command(tmp_path, batches="2", then="raise KeyError('boom')")
    peer = PeerProcess("fake", footing, command)
    peer.open()

    with pytest.raises(PeerError, match="KeyError: 'boom'") as caught:
        peer.turn(1.0)

    assert "fake_pipeline.py" in caught.value.trace
    peer.close()


@pytest.mark.long
def test_a_dead_process_is_told(footing: Footing, tmp_path: Path) -> None:
    """A process that ends without a word is named with its exit code and its last words."""
    then = "os.write(2, b'last words'); os._exit(7)"
    peer = PeerProcess("fake", footing, fake_command(tmp_path, batches="1", then=then))
    peer.open()

    with pytest.raises(PeerError, match="ended with 7") as caught:
        peer.turn(1.0)

    assert "last words" in caught.value.trace
    peer.close()


def test_a_missing_package_makes_a_peer_unable(footing: Footing, tmp_path: Path) -> None:
    """A pipeline that cannot be imported took no part; it has not crashed."""
    command = fake_command(tmp_path)
    (tmp_path / "fake_pipeline.py").write_text("import no_such_package")
    peer = PeerProcess("fake", footing, command)

    with pytest.raises(Unable, match="no_such_package"):
        peer.open()
    peer.close()


def test_an_unknown_question_is_answered_with_an_error() -> None:
    """The far side goes on after it, until it is closed."""
    answers = io.StringIO()

    serve(lambda: None, io.StringIO('{"do": "sing"}\n{"do": "close"}\n{"do": "sing"}\n'), answers)

    first, second = map(json.loads, answers.getvalue().splitlines())
    assert first["error"] == "ValueError: do must be open, turn or close, got 'sing'"
    assert second == {}


def test_a_spec_survives_its_file(tmp_path: Path) -> None:
    """What is written is read again."""
    spec = Spec(
        files=["a.jpg"],
        labels=[3],
        recipe=Recipe.imagenet_train_jitter(),
        batch_size=4,
        num_threads=2,
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
        seed=5,
        folder=tmp_path,
    )

    spec.write(tmp_path / "spec.json")

    assert Spec.read(tmp_path / "spec.json") == spec


@pytest.mark.long
def test_a_peer_takes_its_turns_in_a_comparison(
    footing: Footing, tmp_path: Path, photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a row like anybody else, and one whose batches have another dtype is absent."""
    listing = tmp_path / "photos.txt"
    listing.write_text("\n".join(map(str, photos)))
    command = fake_command(tmp_path)
    entry = Entry("fake", "baseline", lambda given: PeerProcess("fake", given, command))
    monkeypatch.setattr("bench.compare.compare.lineup", lambda *_, **__: [entry])
    settings = Settings(seconds=0.1, rounds=2, batch_size=2, device="cpu")

    comparison = compare(str(listing), footing.recipe, settings, lambda _: None)

    (row,) = comparison.rows
    assert (row.name, row.note, len(row.rate.runs)) == ("fake", "black images", 2)

    text = (tmp_path / "fake_pipeline.py").read_text()
    (tmp_path / "fake_pipeline.py").write_text(text.replace("spec.dtype", "torch.float16"))

    comparison = compare(str(listing), footing.recipe, settings, lambda _: None)

    assert comparison.absent[0].reason.startswith("made torch.float16 [2, 3, 224, 224], not")


# Environments.


def test_every_peer_has_pinned_packages() -> None:
    """Each folder names its packages with a version, the peer's own among them."""
    assert {"grain", "litdata", "mosaic-streaming", "spdl"} <= set(catalog.peer_names())
    for name in catalog.peer_names():
        lines = catalog.requirements(name).read_text().split()
        assert lines
        assert all(line.count("==") == 1 for line in lines), name


def test_a_peer_that_is_not_installed_says_how(
    footing: Footing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an environment it is Unable, with the command that makes one."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Unable, match="gpu-aug bench install-peers grain"):
        PeerProcess("grain", footing)


@pytest.mark.long
def test_an_environment_reuses_the_packages_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new environment without packages of its own finds torch, and is ready."""
    packages = tmp_path / "requirements.txt"
    packages.write_text("")
    monkeypatch.chdir(tmp_path)

    reason = install.build(catalog.environment("grain"), packages)

    assert (reason, install.why_not("grain")) == ("", "")
    python = catalog.python_of(catalog.environment("grain"))
    found = subprocess.run(
        [python, "-c", "import torch, sys; print(torch.__file__, sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert found == [torch.__file__, str(catalog.environment("grain"))]


@pytest.mark.long
def test_an_environment_that_fails_keeps_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pip said stands in the row of a peer that cannot be installed."""
    packages = tmp_path / "requirements.txt"
    packages.write_text("./no-such-folder\n")
    monkeypatch.chdir(tmp_path)

    reason = install.build(catalog.environment("grain"), packages)

    assert "no-such-folder" in reason
    assert install.why_not("grain") == reason


def test_an_unknown_peer_is_refused() -> None:
    """Before anything is built, with the names there are."""
    with pytest.raises(BenchError, match=r"a peer must be one of grain, litdata.*got 'petastorm'"):
        install.install_peers(["grain", "petastorm"], lambda _: None)


# The line-up.


def names(kind: str, entries: list[Entry]) -> list[str]:
    return [entry.name for entry in entries if entry.kind == kind]


def test_peers_choose_the_baselines() -> None:
    """All, none, some, or those that need no environment; ours and the ceiling are always there."""
    usual = names("baseline", lineup())

    assert {"torchvision-pil", "opencv-albumentations", "kornia", "dali-cpu"} <= set(usual)
    assert not set(usual) & set(catalog.peer_names())
    everyone = names("baseline", lineup(["all"]))
    assert [name for name in everyone if name != "torchvision-cuda"] == [
        *(name for name in usual if name != "torchvision-cuda"),
        *catalog.peer_names(),
    ]
    assert names("baseline", lineup(["none"])) == []
    assert names("baseline", lineup(["grain", "dali-cpu"])) == ["dali-cpu", "grain"]
    assert names("baseline", lineup(["grain"])) == ["grain"]
    for entries in (lineup(), lineup(["none"])):
        assert "gpu-aug/cpu+fused" in names("engine", entries)
        assert names("ceiling", entries) == ["decode-only"]
    with pytest.raises(BenchError, match="got petastorm: correct the name"):
        lineup(["petastorm"])


def test_an_engine_that_is_missing_is_absent(
    footing: Footing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of ours that this version cannot build gives a reason, not a crash."""
    monkeypatch.setattr(lining, "ENGINES", ("no-such-engine",))
    entry = next(entry for entry in lineup(["none"]) if entry.name == "gpu-aug/cpu+no-such-engine")
    contestant = entry.enter(footing)

    with pytest.raises(Unable, match="no-such-engine"):
        contestant.open()


# Ratios.


def test_ratios_are_taken_within_rounds() -> None:
    """A slow round that hits both leaves the ratio as it is; the ratio of medians would be 2."""
    rows = [
        Row("gpu-aug/cpu+fused", "engine", Rate((300.0, 30.0, 100.0)), {}, ""),
        Row("grain", "baseline", Rate((100.0, 10.0, 50.0)), {}, ""),
    ]

    assert ratios(rows) == {
        "gpu-aug/cpu+fused": {"grain": {"median": 3.0, "runs": [3.0, 3.0, 2.0]}}
    }
