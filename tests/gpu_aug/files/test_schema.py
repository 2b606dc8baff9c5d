"""Recipe files: forms that people write, YAML and JSON, and errors that name the line."""

import json

import pytest
import yaml

from gpu_aug import (
    CenterCrop,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    OneOf,
    RandomApply,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
)
from gpu_aug.files.document import parse_json, parse_yaml
from gpu_aug.files.schema import load_recipe
from gpu_aug.targets.targets import BoxParams
from gpu_aug.views import Views

SHORT = """
version: 1        # of the format
operations:
- RandomResizedCrop: {size: 224, scale: [0.2, 1]}
- RandomApply:
    operations:
    - HorizontalFlip
    - name: GaussianBlur
      kernel_size: 5
    p: 8e-1
- OneOf: [GaussianBlur: 3, Grayscale: 1]
- Normalize:
boxes: {format: xywh}
"""


def load(tmp_path, text, name="recipe.yaml"):
    (tmp_path / name).write_text(text)
    return load_recipe(tmp_path / name)


def test_short_and_full_forms(tmp_path):
    """A name, a name with fields, a name with its first field, and all fields by name."""
    expected = Recipe(
        [
            RandomResizedCrop(224, scale=(0.2, 1.0)),
            RandomApply([HorizontalFlip(), GaussianBlur(5)], 0.8),
            OneOf([GaussianBlur(3), Grayscale(1.0)]),
            Normalize(),
        ],
        boxes=BoxParams("xywh"),
    )

    assert load(tmp_path, SHORT) == expected
    expected.save(tmp_path / "saved.yaml")
    assert Recipe.load(tmp_path / "saved.yaml") == expected
    assert yaml.safe_load((tmp_path / "saved.yaml").read_text()) == expected.to_dict()


@pytest.mark.parametrize("name", ["r.json", "r.yaml", "r.yml", "r.recipe"])
def test_a_recipe_survives_every_kind_of_file(tmp_path, name):
    """The ending decides how it is written; what is read back is the same."""
    recipe = Recipe([Resize((31, 47)), GaussianBlur(3, (1e-05, 2.0)), HorizontalFlip(1 / 3)])
    recipe.save(tmp_path / name)

    loaded = Recipe.load(tmp_path / name)
    assert (loaded, loaded.fingerprint) == (recipe, recipe.fingerprint)


def test_views_in_a_file(tmp_path):
    """Several recipes for each sample; Recipe.load says what to call instead."""
    text = "version: 1\nviews:\n- [RandomResizedCrop: 32]\n- operations: [CenterCrop: 32]\n"
    views = load(tmp_path, text)

    assert views == Views([Recipe([RandomResizedCrop(32)]), Recipe([CenterCrop(32)])])
    with pytest.raises(RecipeError, match="holds views"):
        Recipe.load(tmp_path / "recipe.yaml")


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ("- HorizontalFlp", 3, r"got 'HorizontalFlp': did you mean HorizontalFlip\?"),
        ("- name: RandomHorizontalFlip", 3, r"did you mean HorizontalFlip\?"),
        ("- CenterCrop: {sise: 3}", 3, r"no field 'sise'; it has: .*size.*did you mean size\?"),
        ("- name: CenterCrop\n  sise: 3", 4, "no field 'sise'"),
        ("- CenterCrop", 3, "CenterCrop lacks its field size"),
        ("- CenterCrop: 8\n- HorizontalFlip: {p: often}", 4, "HorizontalFlip p must be .* 'often'"),
        ("- name: HorizontalFlip\n  p: 1.5", 4, "HorizontalFlip p must be a probability"),
        ("- OneOf:\n  - HorizontalFlip\n  - Grayscal", 5, "did you mean Grayscale"),
        ("- OneOf:\n    operations:\n    - HorizontalFlip: 2", 5, "HorizontalFlip p must be"),
        ("- name: CenterCrop\n  size: 3\n  size: 4", 5, "the key 'size' is repeated"),
        ("- CenterCrop: 8\n- Normalize\n- ColorJitter: 0.4", 5, "ColorJitter must come before"),
        ("- 3", 3, "an operation must be a name"),
        ("- {CenterCrop: 1, HorizontalFlip: 1}", 3, "an operation must be a name"),
        ("- CenterCrop: 8\nboxes: {formt: xyxy}", 4, r"BoxParams has no 'formt'.*mean format"),
        ("- CenterCrop: 8\nboxes:\n  min_area: -1", 5, "BoxParams min_area must be"),
        ("- CenterCrop: 8\noperatoins: []", 4, r"a recipe has no 'operatoins'.*mean operations"),
        (
            "- CenterCrop: 8\noperatoins:\n- Flip",
            4,
            r"a recipe has no 'operatoins'.*mean operations",
        ),
        ("- CenterCrop:\n    sise:\n    - 3", 4, "no field 'sise'"),
        ("  HorizontalFlip:", 2, "got {'HorizontalFlip': None}: write a list, with a dash"),
        ("- CenterCrop: [8", 4, r"cannot be read as YAML: .* that begins on line 3\)"),
        ("- !!python/object:os.system x", 3, "the tag .* is not read"),
    ],
)
def test_errors_name_the_line(tmp_path, lines, line, message):
    """file:line, then what is wrong and what is allowed."""
    with pytest.raises(RecipeError, match=message) as caught:
        load(tmp_path, f"version: 1\noperations:\n{lines}\n")

    assert str(caught.value).startswith(f"{tmp_path}/recipe.yaml:{line}: ")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"version": 1,\n"operations": [{"name": "Flip"}]}', 2, "operation must be"),
        ('{"version": 1,\n"operations": [\n{"name": "HorizontalFlip",\n"p": 3}]}', 4, "p must be"),
        ('{"version": 1,\n"version": 1}', 2, "is repeated"),
        ('{"version": 1\n"operations": []}', 2, "cannot be read as JSON: .*delimiter"),
        ('{"version": 1,}', 1, "cannot be read as JSON: "),
        ("not json", 1, "cannot be read as JSON"),
        ("[]", 1, "recipe version must be 1, got 'list'"),
        ('{"version": 1}', 1, "operations must be a list"),
        ('{"version": 1, "operations": ["flip"]}', 1, "must be one of .*CenterCrop, .* got 'flip'"),
        ('{"version": 1, "operations": [{"name": ["a"]}]}', 1, r"must be one of .* got \['a'\]"),
        (
            '{"version": 1, "operations": [{"name": "WithProbability"}]}',
            1,
            "must be one of .* got 'WithProbability'",
        ),
        ('{"version": 1, "operations": [{"name": "CenterCrop", "sise": 3}]}', 1, "no field 'sise'"),
        (
            '{"version": 1, "operations": [{"name": "CenterCrop", "size": "3"}]}',
            1,
            "CenterCrop size must be .* got '3'",
        ),
        ('{"version": 2}', 1, "recipe version must be 1, got 2"),
        ('{"version": true}', 1, "recipe version must be 1, got True"),
        ("{}", 1, "recipe version must be 1, got None: write version: 1 beside operations"),
        ('{"version": 1,\n"operatoins":\n[]}', 2, "a recipe has no 'operatoins'"),
        ('{"version": 1,\n"views": 3}', 2, "views must be a list"),
        ('{"version": 1} x', 1, "cannot be read as JSON: Extra data"),
        ("[" * 200 + "]" * 200, 1, "the file is too deep"),
        ("[" * 100_000, 1, "the file is too deep|cannot be read"),
        ("[" + "0," * 100_000 + "0]", 1, "the file is too large"),
        ('{"version": ' + "1" * 5000 + "}", 1, "cannot be read as JSON: "),
        ('{"version": 1,\n\t"operations": [{\n\t\t"name": "Flip"}]}', 3, "operation must be"),
    ],
)
def test_errors_name_the_line_of_json(tmp_path, text, line, message):
    """JSON has lines as well."""
    with pytest.raises(RecipeError, match=message) as caught:
        load(tmp_path, text, "recipe.json")

    assert str(caught.value).startswith(f"{tmp_path}/recipe.json:{line}: ")


def test_odd_json_is_read_as_by_json():
    """Tabs, escapes, exponents, long keys and numbers without a point."""
    text = (
        '\t{"a\\u00e9\\/": [1, -2.5, 1e-05, 1E5, true, null, "\\ud83d\\ude00\\n"],\r\n\t"'
        + "k" * 2000
        + '": {}}\n'
    )

    assert parse_json(text).value == json.loads(text)


def test_yaml_by_the_rules_of_version_1_2():
    """`on` is text, 1e-3 a number, 010 ten, and anchors can be merged."""
    text = "a: [on, yes, 1e-3, 010, 0x10, 1:30, 2001-01-01, ~, .5, -.inf]\nb: &b {p: 1}\nc: {<<: *b, q: 2}\n"
    value = parse_yaml(text).value

    assert value["a"] == [
        "on",
        "yes",
        0.001,
        10,
        16,
        "1:30",
        "2001-01-01",
        None,
        0.5,
        -float("inf"),
    ]
    assert value["c"] == {"p": 1, "q": 2}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [*a]", "1: the file is too deep"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "\n".join(
                f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]"
                for old, new in zip("abcde", "bcdef", strict=True)
            ),
            "the file is too large",
        ),
    ],
    ids=["recursive", "exponential"],
)
def test_files_that_grow_without_bound_are_refused(text, said):
    """Aliases of aliases cannot fill the memory."""
    with pytest.raises(RecipeError, match=said):
        parse_yaml(text)


def test_a_missing_file_is_named(tmp_path):
    """The path and what to give."""
    with pytest.raises(RecipeError, match=r"gone\.yaml' is missing.*Recipe\.preset\(name\)"):
        Recipe.load(tmp_path / "gone.yaml")
