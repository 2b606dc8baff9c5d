"""The files for containers and for continuous integration that people copy: their syntax, and what they name."""

import re
from typing import Any

import pytest
import typer.main
import yaml

from bench.cli.app import app
from tests.support.pages import ROOT

FOLDER = ROOT / "containers"
INSTRUCTIONS = {
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
}
"""Those of Docker's reference that are not deprecated."""


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with their words; lines that go on are joined.

    Raises:
        ValueError: One is unknown, or the first that makes a stage does not come first.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [tuple(line.partition(" ")[::2]) for line in joined.splitlines() if line.strip()]
    if wrong := [name for name, words in found if name not in INSTRUCTIONS or not words.strip()]:
        raise ValueError(f"unknown instructions, or without words: {wrong}")
    if next(name for name, _ in found if name != "ARG") != "FROM":
        raise ValueError("an image begins with FROM")
    return found  # type: ignore[return-value]


def commands(text: str) -> set[str]:
    """The commands of gpu-aug that a text calls."""
    return set(re.findall(r"gpu-aug (\w+)", re.sub(r"#.*", "", text)))


def known() -> set[str]:
    """The commands there are."""
    command: Any = typer.main.get_command(app)
    return set(command.list_commands(None))


def test_the_dockerfile() -> None:
    """Instructions are Docker's, what is copied is there, and commands are ours."""
    text = (FOLDER / "Dockerfile").read_text()
    found = instructions(text)
    copied = [word for name, words in found if name == "COPY" for word in words.split()[:-1]]

    assert [word for word in copied if not (ROOT / word).exists()] == []
    assert {"readers", "gpu_aug", "dali_pipes", "bench", "pyproject.toml", "LICENSE"} <= set(copied)
    assert commands(text) == {"warm"} <= known()
    assert [words for name, words in found if name == "USER"] == ["trainer"]


@pytest.mark.parametrize(
    "text", ["FORM a\n", "RUN x\nFROM a\n", "FROM a\nRUN\n", "FROM a\nRUN x && \\\n  y\nz\n"]
)
def test_a_wrong_dockerfile_is_noticed(text: str) -> None:
    """Negative control."""
    with pytest.raises(ValueError, match=r"unknown|begins"):
        instructions(text)


def test_the_workflow() -> None:
    """It is YAML with what GitHub asks of a workflow: triggers, a machine, and steps that use or run something."""
    text = (FOLDER / "workflow.yml").read_text()
    told = yaml.load(text, yaml.BaseLoader)

    assert told.keys() <= {"name", "on", "permissions", "jobs"}
    assert told["on"].keys() <= {"push", "pull_request"}
    for job in told["jobs"].values():
        assert job["runs-on"].startswith("ubuntu")
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])
        assert all(re.fullmatch(r"[\w/-]+@v\d+", step.get("uses", "a@v1")) for step in job["steps"])
    assert commands(text) <= known()
