r"""The digest of the source of a user's function or class, for the fingerprint of a recipe.

The digest changes when the code changes. It stays when a comment, the layout, the module or the version of Python changes. Syntax
trees and bytecode differ between versions of Python, so the digest is that of the tokens, with a line for each line of
code and tabs for its depth:

    >>> normalized("def darken(images):  # float32\n    'Halve them.'\n    return images*0.5\n")
    'def darken ( images ) :\n\treturn images * 0.5'

The functions and classes of its module that the code names decide what it does, so their lines are hashed as well.
"""

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from hashlib import sha256
from types import CodeType
from typing import Any

# Names in the normalized source.
_NAME = re.compile(r"[^\W\d]\w*")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_LAYOUT = (tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER)  # tokens without meaning
_STEPS = {
    getattr(tokenize, f"{kind}_{end}", None): step
    for kind in ("FSTRING", "TSTRING")
    for end, step in (("START", 1), ("END", -1))
}
"""Token of the start or end of an f-string -> the change of depth. Before Python 3.12 an f-string was one token; `_tokens` makes it
one again."""


def describe_source(code: Any) -> dict[str, str]:
    """Return a digest of the source of a function or class, and of the functions and classes of its module that it names.

    Code without a source, such as that of ``exec``, gets a digest of its bytecode under another key, with the version of Python.
    """
    own = _normalized_source(code)
    if not own:
        version = ".".join(map(str, sys.version_info[:2]))
        return {"bytecode": f"Python {version}: {_digest(_bytecode(code))}"}
    sources, waiting = {code: own}, list(_named_code(code, own))
    while waiting:
        named = waiting.pop()
        if named not in sources:
            sources[named] = _normalized_source(named)  # "" for a namedtuple, which has no source
            waiting += _named_code(named, sources[named])
    del sources[code]
    return {"source": _digest("\n".join([own, *sorted(filter(None, sources.values()))]))}


def normalized(text: str) -> str:
    """Return source text without comments, docstrings and blank space, indented by tabs."""
    return "\n".join(_lines(text))


def _normalized_source(code: Any) -> str:
    """Return the normalized source of a function or class, or "" if it has none."""
    try:
        return normalized(_text(code))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        return ""


def _lines(text: str) -> Iterator[str]:
    """Yield the normalized logical lines of a source, without docstrings; the first line is not indented."""
    words: list[str] = []
    depth, first_depth, is_docstring = 0, -1, True
    for kind, word in _tokens(text):
        if kind in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if kind == tokenize.INDENT else -1
        elif kind != tokenize.NEWLINE:
            words.append(word)
            is_docstring = is_docstring and kind == tokenize.STRING
        else:
            first_depth = depth if first_depth < 0 else first_depth
            if words and not is_docstring:
                yield "\t" * (depth - first_depth) + " ".join(words)
            words, is_docstring = [], True


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Yield (kind, text) of the tokens that matter; an f-string is one token of kind OP, with its own layout."""
    lines = list(io.StringIO(text))
    nested, start = 0, (0, 0)  # depth in f-strings, and where the outermost one begins
    for kind, word, begin, end, _ in tokenize.generate_tokens(iter([*lines, ""]).__next__):
        step = _STEPS.get(kind, 0)
        if step > 0 and not nested:
            start = begin
        nested += step
        if step < 0 and not nested:
            yield tokenize.OP, _between(lines, start, end)
        elif not nested and kind not in _LAYOUT:
            is_f_string = kind == tokenize.STRING and "f" in word.partition(word[-1])[0].lower()
            yield tokenize.OP if is_f_string else kind, word


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return the text between two positions (row, column); rows count from 1."""
    rows = lines[start[0] - 1 : end[0]]
    rows[-1] = rows[-1][: end[1]]
    rows[0] = rows[0][start[1] :]
    return "".join(rows)


def _text(code: Any) -> str:
    """Return the source of a function or class; of a lambda, only its expression.

    Raises:
        OSError: The code has no source.
    """
    compiled: CodeType | None = getattr(code, "__code__", None)
    if compiled is None or compiled.co_name != "<lambda>":
        return inspect.getsource(compiled or code)
    text = "".join(inspect.findsource(compiled)[0])
    lambdas = [node for node in ast.walk(ast.parse(text)) if _is_lambda_of(compiled, node)]
    if not lambdas:
        raise OSError("the lambda is not in its source")
    return f"({ast.get_source_segment(text, lambdas[-1])})"  # the innermost one


def _is_lambda_of(compiled: CodeType, node: ast.AST) -> bool:
    """Return whether a node is the lambda of this compiled code: its body contains all positions of the code."""
    if not isinstance(node, ast.Lambda) or node.lineno != compiled.co_firstlineno:
        return False
    body = node.body
    first = body.lineno, body.col_offset
    last = body.end_lineno or 0, body.end_col_offset or 0
    return all(
        first <= (line, column) and (end_line, end_column) <= last
        for line, end_line, column, end_column in compiled.co_positions()
        if line
        and end_line
        and column is not None
        and end_column  # 0 or None: code that Python adds
    )


def _named_code(code: Any, text: str) -> Iterator[Callable[..., Any]]:
    """Yield the functions and classes that the source of a function or class names and that are in its module."""
    module = code.__module__
    known = getattr(code, "__globals__", None) or getattr(sys.modules.get(module), "__dict__", {})
    for name in sorted(set(_NAME.findall(text)) & set(known)):
        value: Any = inspect.unwrap(known[name]) if callable(known[name]) else None
        is_code = inspect.isfunction(value) or inspect.isclass(value)
        if is_code and value.__module__ == module:
            yield value


def _bytecode(code: Any) -> str:
    """Return the bytecode of a function, or of the methods of a class, as text."""
    if inspect.isclass(code):
        parts = [part for _, part in sorted(vars(code).items()) if inspect.isfunction(part)]
        return "\n".join([code.__qualname__, *map(_bytecode, parts)])
    compiled = code.__code__
    constants = [
        item.co_code.hex() if isinstance(item, CodeType) else without_address(repr(item))
        for item in compiled.co_consts
    ]
    return f"{compiled.co_code.hex()} {constants} {compiled.co_names} {compiled.co_varnames}"


def without_address(text: str) -> str:
    """Return the repr of an object without its address in memory."""
    return _ADDRESS.sub("", text)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
