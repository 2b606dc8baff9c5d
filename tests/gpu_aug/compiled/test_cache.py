"""Compiled code that is kept: what it depends on, who may put it there, and what is said meanwhile."""

import ast
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gpu_aug
from gpu_aug.compiled import cache as kept
from gpu_aug.compiled.process_lock import ProcessLock
from readers.storage.cache_folder import cache_folder

_INNER = """
from gpu_aug.compiled.jit import {kind}

@{kind}
def number():
    return {number}
"""
_OUTER = """
from gpu_aug.compiled.jit import kernel
from gpu_aug.trial_inner import number

@kernel
def answer():
    return number()
"""

Import = Callable[..., Any]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, where nobody was told yet that anything is compiled."""
    monkeypatch.setattr(kept.numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "_announcing", None)
    kept.folder.cache_clear()
    yield tmp_path / "cache" / "compiled"
    kept.folder.cache_clear()


@pytest.fixture
def import_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Import]:
    """Import a kernel that calls a function of another file, which returns a number, as a new process would."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "trial_outer.py").write_text(_OUTER)
    monkeypatch.setattr(gpu_aug, "__path__", [*gpu_aug.__path__, str(folder)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = ("gpu_aug.trial_outer", "gpu_aug.trial_inner")

    def forget() -> None:
        kept._sources.cache_clear()
        for name in names:
            sys.modules.pop(name, None)

    def import_(number: int, kind: str = "inlined") -> Any:
        forget()
        (folder / "trial_inner.py").write_text(_INNER.format(number=number, kind=kind))
        __import__(names[0])
        return sys.modules[names[0]]

    yield import_
    forget()


@pytest.mark.parametrize("kind", ["inlined", "inner"])
def test_changed_callee(place: Path, import_trial: Import, kind: str) -> None:
    """A function is compiled anew when one that it calls in another file has changed, and not else; both are one entry."""
    assert import_trial(1, kind).answer() == 1
    compiled = kept.num_compiled()
    assert import_trial(1, kind).answer() == 1
    assert kept.num_compiled() == compiled
    assert import_trial(2, kind).answer() == 2
    assert import_trial(1, kind).answer() == 1
    assert kept.num_compiled() == compiled + 1
    assert len(list(place.glob("*.code"))) == 2


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(kept, "_VERSIONS", ("another",)), (kept.numba.config, "BOUNDSCHECK", 1)],
    ids=["versions", "settings"],
)
def test_other_versions_and_settings(
    place: Path,
    import_trial: Import,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    value: Any,
) -> None:
    """Code of other versions of NumPy and others, or of other settings of Numba, is not used."""
    answer = import_trial(1).answer
    answer()
    assert place.is_dir()
    assert answer._cache.has(())
    monkeypatch.setattr(owner, name, value)
    assert not answer._cache.has(())


def test_imports_are_those_of_the_syntax_tree() -> None:
    """The quick search of a module's text finds the modules of ours that its top level imports."""
    ours = [
        name for name in sys.modules if kept._OURS.match(name) and name != "gpu_aug.trial_inner"
    ]
    assert len(ours) > 50
    for name in ours:
        text = kept._text(sys.modules[name]).decode()
        found = set(kept._imported(text))
        imported = set()
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import):
                imported |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {str(node.module), *(f"{node.module}.{one.name}" for one in node.names)}
        assert {one for one in imported if kept._OURS.match(one) and one in sys.modules} <= found


def test_told_once(place: Path, import_trial: Import, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr names the folder when compiling begins; what is kept is loaded without a word."""
    import_trial(1).answer()
    import_trial(2).answer()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert str(place) in lines[0]
    kept._announcing = None
    import_trial(1).answer()
    assert capsys.readouterr().err == ""


def test_logged(place: Path, import_trial: Import, caplog: pytest.LogCaptureFixture) -> None:
    """The logger names what was compiled and how long it took; nothing where it was kept."""
    caplog.set_level(logging.INFO, "gpu_aug")
    import_trial(1).answer()
    import_trial(1).answer()
    (text,) = caplog.messages
    assert re.fullmatch(r"compiled answer in \d+\.\d\d s", text)
    assert place.is_dir()


def test_other_processes_are_silent(
    place: Path, import_trial: Import, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where another process has said it, and is still there, nothing is said."""
    other = ProcessLock((kept.folder() or place) / "announcing.lock")
    assert other.try_now()
    import_trial(1).answer()
    other.end()
    assert capsys.readouterr().err == ""


def test_damaged_entry(place: Path, import_trial: Import) -> None:
    """What is cut short or altered counts as missing, and is written anew."""
    import_trial(1).answer()
    (entry,) = place.glob("*.code")
    data = entry.read_bytes()
    for damaged in (b"", data[:-1], data[:-1] + bytes([data[-1] ^ 1])):
        entry.write_bytes(damaged)
        assert kept._read(entry) is None
        assert import_trial(1).answer() == 1
        assert kept._read(entry) is not None


def test_folder_that_others_can_write(place: Path) -> None:
    """A folder that strangers can put pickles into is not used."""
    place.mkdir(parents=True)
    assert kept.folder() == place
    place.chmod(0o777)
    kept.folder.cache_clear()
    assert kept.folder() is None


def test_no_folder(
    place: Path,
    import_trial: Import,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where nothing can be kept functions work all the same, and the line says what to do."""
    place.parent.write_text("a file")
    assert import_trial(1).answer() == 1
    assert "nothing can be kept in" in (told := capsys.readouterr().err)
    assert "GPU_AUG_CACHE" in told
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(kept, "_announcing", None)
    import_trial(2).answer()
    assert capsys.readouterr().err == ""


def test_failure(place: Path, import_trial: Import) -> None:
    """A function that cannot be compiled leaves no lock behind, and the clock goes on."""
    module = import_trial(1)
    bad = gpu_aug.compiled.jit.kernel(_refused)
    with pytest.raises(kept.numba.TypingError):
        bad(1)
    assert not list(place.glob("*_refused*.lock"))
    assert gpu_aug.compiled.clock.clock._depth == 0
    assert module.answer() == 1


def _refused(number: int) -> Any:
    return number.nothing  # type: ignore[attr-defined]


def test_turn(tmp_path: Path) -> None:
    """Of two one has the turn until it gives it back."""
    first, second = (ProcessLock(tmp_path / "turn.lock") for _ in range(2))
    assert first.try_now()
    assert not second.try_now()
    first.end()
    assert second.try_now()
    second.end()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [None, "", "~/mine", "here/below", "/there"])
def test_all_packages_keep_what_they_keep_in_one_folder(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers and gpu_aug, which know nothing of each other, mean the same folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPU_AUG_CACHE", raising=False)
    if given is not None:
        monkeypatch.setenv("GPU_AUG_CACHE", given)
    expected = {
        "~/mine": tmp_path / "home" / "mine",
        "here/below": tmp_path / "here" / "below",
        "/there": Path("/there"),
    }

    folder = cache_folder()
    assert folder == kept.cache_folder()
    assert folder == expected.get(given or "", tmp_path / "home" / ".cache" / "gpu-aug")
