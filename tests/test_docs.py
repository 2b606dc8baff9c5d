"""The README and docs/: examples run, and every link, path, command, option and quoted message exists."""

import ast
import importlib
import importlib.util
import inspect
import linecache
import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main

from bench.cli.app import app
from dali_pipes import Clips, Loader
from gpu_aug import Recipe
from tests.support.example_data import make_example_data
from tests.support.pages import ROOT, Page, pages

FOLDERS = ("readers", "gpu_aug", "dali_pipes", "bench", "tests", "examples", "docs")
PAGES = pages()
DECISIONS = Page("DECISIONS.md")
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
every_text = pytest.mark.parametrize("page", [*PAGES, DECISIONS], ids=lambda page: page.name)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the data that the examples open."""
    folder = tmp_path_factory.mktemp("data")
    make_example_data(folder)
    return folder


def small_model(num_classes: int = 1000) -> torch.nn.Module:
    """Return a model with the interface of ResNet-18 and quick steps."""
    layers = torch.nn
    pool = layers.AdaptiveAvgPool2d(4)
    return layers.Sequential(pool, layers.Flatten(), layers.Linear(48, num_classes))


def run_python(page: Page) -> None:
    """Run the Python blocks of a page as one program."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in page.blocks:
        if block.language == "python" and block.is_run:
            name = f"{page.name}:{block.line}"
            linecache.cache[name] = (len(block.text), None, block.text.splitlines(True), name)
            exec(compile(block.text, name, "exec"), namespace)


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:the weights"
)
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.language == "python" for block in page.blocks)],
    ids=lambda page: page.name,
)
def test_examples_run(page: Page, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of a page run unchanged."""
    monkeypatch.chdir(data)
    monkeypatch.setattr("torchvision.models.resnet18", small_model)
    run_python(page)


def test_recipes_in_yaml_load(tmp_path: Path) -> None:
    """A recipe file that a page shows can be loaded."""
    shown = [block.text for page in PAGES for block in page.blocks if block.language == "yaml"]
    for number, text in enumerate(shown):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        assert Recipe.load(path).operations
    assert shown


def test_a_wrong_example_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Negative control: blocks of a page share their names, and an error in one of them is raised."""
    page = Page("page.md")
    monkeypatch.setattr("tests.support.pages.ROOT", tmp_path)
    (tmp_path / "page.md").write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError):
        run_python(page)


@every_text
def test_links(page: Page) -> None:
    """Every link leads to a file of the project and, behind #, to a heading of it."""
    for link in page.links:
        path, _, anchor = link.partition("#")
        target = (ROOT / page.name).parent / path if path else ROOT / page.name
        assert target.exists(), link
        name = str(target.resolve().relative_to(ROOT))
        assert not anchor or anchor in Page(name).anchors, link


@every_text
def test_paths(page: Page) -> None:
    """Every path and module of ours that a page names exists."""
    for path in re.findall(rf"(?<![\w/.])(?:{'|'.join(FOLDERS)})/[\w./*-]*", page.text):
        assert list(ROOT.glob(path.rstrip("/."))), path
    for code in page.code:
        for name in re.findall(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})(?:\.\w+)+", code):
            assert finds(name), name


def finds(name: str) -> bool:
    """Whether a dotted name is a module or an attribute of one."""
    module, _, attribute = name.rpartition(".")
    if attribute in ("py", "md", "toml"):
        return True
    found = importlib.import_module(module)
    is_package = hasattr(found, "__path__")
    return hasattr(found, attribute) or (is_package and bool(importlib.util.find_spec(name)))


@every_page
def test_commands(page: Page) -> None:
    """Every `gpu-aug ...` command of a page and its options exist."""
    for code in page.code:
        for words in re.findall(r"(?:^|\s)gpu-aug((?: +\S+)*)", code):
            check_command(words.split())


def check_command(words: list[str]) -> None:
    """Fail for a command or option that does not exist."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "get_command") and words and words[0].islower():
        command = command.get_command(None, words[0])
        assert command is not None, f"there is no {' '.join(words)}"
        words = words[1:]
    options = {
        option for param in command.params for option in (*param.opts, *param.secondary_opts)
    }
    given = {word.partition("=")[0] for word in words if re.match(r"-", word)} - {"--help", "-h"}
    assert given <= options, (command.name, given - options)


@pytest.mark.parametrize("words", ["frobnicate", "bench frobnicate", "run DATA --frobnicate"])
def test_a_wrong_command_is_noticed(words: str) -> None:
    """Negative control: unknown commands and options."""
    with pytest.raises(AssertionError):
        check_command(words.split())


@every_page
def test_targets_of_make(page: Page) -> None:
    """Every `make ...` is in the Makefile."""
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets is not None
    for code in page.code:
        for target in re.findall(r"(?:^|\s)make ([a-z-]+)", code):
            assert target in targets[1].split(), code


@every_page
@pytest.mark.parametrize("made", [Loader, Clips], ids=lambda made: made.__name__)
def test_keywords(page: Page, made: Callable[..., object]) -> None:
    """Every keyword of a shown call of Loader or Clips exists."""
    known = inspect.signature(made).parameters
    for call in re.findall(rf"(?<!\w){made.__name__}\(.*\)", "\n".join(page.code)):
        try:
            tree = ast.parse(call.replace(", ...)", ")").replace("...)", ")"), mode="eval")
        except SyntaxError:
            continue
        if isinstance(tree.body, ast.Call):
            given = {keyword.arg for keyword in tree.body.keywords}
            assert given <= known.keys(), call


def test_quoted_messages_exist() -> None:
    """Messages that the page about troubles quotes occur in our code."""
    quoted = quoted_messages((ROOT / "docs/troubleshooting.md").read_text())
    code = texts_of_the_code()

    assert len(quoted) > 15
    assert [message for message in quoted if not occurs(message, code)] == []


def test_a_wrong_message_is_noticed() -> None:
    """Negative control: an invented message beside a real one."""
    [right, wrong] = quoted_messages(
        '| "an epoch has ... batch", "an epoch has ... crumbs" | why |'
    )

    assert occurs(right, texts_of_the_code())
    assert not occurs(wrong, texts_of_the_code())


def quoted_messages(text: str) -> list[str]:
    """Return the quoted texts in the first column of the tables, without those in code."""
    cells = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return re.findall(r'"([^"]+)"', "\n".join(re.sub(r"`[^`]*`", "", cell) for cell in cells))


def occurs(message: str, code: str) -> bool:
    """Whether the code contains every part of a message between dots."""
    return all(part.strip() in code for part in message.split("..."))


@cache
def texts_of_the_code() -> str:
    """Return all string constants of the packages, one per line; values divide an f-string into several."""
    texts = []
    for package in ("readers", "gpu_aug", "dali_pipes"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
    return "\n".join(texts)


def test_the_readme_is_short() -> None:
    """At most 9 kB, so that people read it to its end, and a first example of 12 lines."""
    page = PAGES[0]
    first = page.blocks[0]
    assert len(page.text.encode()) <= 9000
    assert (first.language, len(first.text.splitlines())) == ("python", 12)
    assert "docs/index.md" in page.links


def test_the_readme_names_every_extra() -> None:
    """Every extra of pyproject.toml but the tools of contributors."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].keys() - {"dev"}
    assert [name for name in extras if not re.search(rf"[`\[]{name}[`\]]", PAGES[0].text)] == []


def test_the_index_names_every_page() -> None:
    """Every page of docs/ can be reached."""
    names = {Path(page.name).name for page in PAGES if page.name.startswith("docs/")}
    assert names - {"index.md"} <= set(Page("docs/index.md").links)


def test_new_names_exist() -> None:
    """Every module, class and function in the column "now" of the page of moved names can be imported."""
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", Page("docs/moved_names.md").text, re.M)
    names = {
        name
        for row in rows
        for name in re.findall(r"`((?:readers|gpu_aug|dali_pipes)\.[\w.]+)`", row)
    }

    assert len(names) > 30
    assert sorted(name for name in names if not can_be_imported(name)) == []


def can_be_imported(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    if importlib.util.find_spec(name.rpartition(".")[0]) is None:
        return False
    module, _, attribute = name.rpartition(".")
    found = importlib.import_module(module)
    return hasattr(found, attribute) or importlib.util.find_spec(name) is not None


def test_pointers_to_decisions_exist() -> None:
    """Every mention of DECISIONS.md in a comment or docstring names one of its headings."""
    pointers = []
    for folder in ("readers", "gpu_aug", "dali_pipes", "bench", "examples", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            if path != Path(__file__):
                pointers += [(path.name, name) for name in decisions_named_in(path.read_text())]

    assert len(pointers) > 3
    assert [pointer for pointer in pointers if not is_decision(pointer[1])] == []


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ('# see DECISIONS.md, "Scaled decoding".', True),
        ('# see DECISIONS.md, "Scaled\n    # decoding".', True),
        ('# see DECISIONS.md, "Decoding".', False),
        ("# see DECISIONS.md.", False),
    ],
)
def test_a_wrong_pointer_is_noticed(text: str, is_right: bool) -> None:
    """Negative control: a heading that does not exist, and no heading at all."""
    [name] = decisions_named_in(text)
    assert is_decision(name) == is_right


def decisions_named_in(code: str) -> list[str]:
    """Return the heading behind each mention of DECISIONS.md, "" where there is none."""
    text = re.sub(r"\s*\n\s*(?:#\s*)?", " ", code)
    return re.findall(r'DECISIONS\.md(?:, "([^"]+)")?', text)


def is_decision(name: str) -> bool:
    """Whether DECISIONS.md has this heading, once."""
    return len(re.findall(rf"^### {re.escape(name)}$", DECISIONS.text, re.MULTILINE)) == 1
