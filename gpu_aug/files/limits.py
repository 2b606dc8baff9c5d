"""Limits on the number and depth of values in a recipe file."""

Keys = tuple[str | int, ...]
"""The keys of dictionaries and the numbers in lists that lead to a value of a document."""

MAX_PIXELS = 100_000_000
"""Pixels of an image: of those that are read, the Loader's default, and of those that the recipe of a file makes."""

# A recipe with every operation once takes 19 kB, 5 levels and 1,033 values. Far more is a mistake or an attack, such as
# YAML references that unfold to billions of values.
MOST_BYTES = 1 << 20
MOST_DEPTH = 100
_MOST_VALUES = 100_000


def excess(num_values: int, depth: int) -> str:
    """Return the error for a file with this number of values and this depth, or "" if they are allowed."""
    if depth > MOST_DEPTH:
        return (
            f"the file is too deep for a recipe: values are nested more than {MOST_DEPTH} deep: remove levels, and in "
            "YAML references (*name) to a value that contains them"
        )
    if num_values > _MOST_VALUES:
        return (
            f"the file is too large for a recipe: it holds more than {_MOST_VALUES} values: remove values, and in YAML "
            "references (*name), each of which counts as all values that it refers to"
        )
    return ""
