"""Functions of a user's own, whose sources are known: a comment, a docstring or blank space more changes none."""


def halved(x, seeds=None, *, by=0.5):
    """Use a helper of this module, and f-strings, which Python 3.12 reads in another way."""
    text = f"{by!r:>{8}} of {'x'} {{}}" r"\d" rf"{by}\s"  # never seen
    return helper(x) * by if text else seeds


def helper(x):
    if x is None and (text := f"""{x}"""):
        return text
    return x.clamp(0, 1)


def scaled(factor):
    return lambda x: helper(x) * factor, lambda x: x


class Adder:
    """A callable of one's own."""

    def __init__(self, number):
        self.number = number

    def __call__(self, x):
        """Add."""
        return helper(x) + self.number


def steps():
    """Return what stands in a recipe, by a name."""
    first, second = scaled(0.5)
    return {
        "function": halved,
        "lambda": first,
        "second lambda of a line": second,
        "object": Adder(3),
        "method": Adder(3).__call__,
    }
