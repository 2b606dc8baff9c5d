"""The source of a function or class in a form that is the same under every version of Python."""

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

_NAME = re.compile(r"[^\W\d]\w*")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_LAYOUT = (tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER)
_STEPS = {
    getattr(tokenize, f"{kind}_{end}", None): step
    for kind in ("FSTRING", "TSTRING")
    for end, step in (("START", 1), ("END", -1))
}
"""How much deeper a token leads into an f-string; before Python 3.12 all of it was one token."""


def describe_source(code: Any) -> dict[str, str]:
    """Return a digest of the source of a function or class, and of those in its module that it names.

    Comments, docstrings, blank space, the name of the module and the version of Python do not count. Where there is no
    source, as of what ``exec`` made, it is a digest of the bytecode, which depends on the version of Python and says so.
    """
    own = _source(code)
    if not own:
        version = ".".join(map(str, sys.version_info[:2]))
        return {"bytecode": f"Python {version}: {_digest(_bytecode(code))}"}
    found, waiting = {code: own}, list(_named(code, own))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = _source(one)  # of a namedtuple there is none
            waiting += _named(one, found[one])
    del found[code]
    return {"source": _digest("\n".join([own, *sorted(filter(None, found.values()))]))}


def normalized(text: str) -> str:
    """Return source without comments, docstrings and blank space; tabs say how deep a line stands."""
    return "\n".join(_lines(text))


def _source(code: Any) -> str:
    """Return the normalized source of a function or class, empty where there is none."""
    try:
        return normalized(_text(code))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        return ""


def _lines(text: str) -> Iterator[str]:
    words: list[str] = []
    depth, depth_before, is_text = 0, -1, True
    for kind, word in _words(text):
        if kind in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if kind == tokenize.INDENT else -1
        elif kind != tokenize.NEWLINE:
            words.append(word)
            is_text = is_text and kind == tokenize.STRING
        else:
            depth_before = depth if depth_before < 0 else depth_before
            if words and not is_text:  # else a docstring
                yield "\t" * (depth - depth_before) + " ".join(words)
            words, is_text = [], True


def _words(text: str) -> Iterator[tuple[int, str]]:
    """Yield (kind, text) of the tokens that count; an f-string is one operator, as it stands."""
    lines = list(io.StringIO(text))
    nested, start = 0, (0, 0)
    for kind, word, begin, end, _ in tokenize.generate_tokens(iter([*lines, ""]).__next__):
        step = _STEPS.get(kind, 0)
        if step > 0 and not nested:
            start = begin
        nested += step
        if step < 0 and not nested:
            yield tokenize.OP, _between(lines, start, end)
        elif not nested and kind not in _LAYOUT:
            formats = kind == tokenize.STRING and "f" in word.partition(word[-1])[0].lower()
            yield tokenize.OP if formats else kind, word


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    rows = lines[start[0] - 1 : end[0]]
    rows[-1] = rows[-1][: end[1]]
    rows[0] = rows[0][start[1] :]
    return "".join(rows)


def _text(code: Any) -> str:
    """Return the source of a function or class; of a lambda without what stands around it.

    Raises:
        OSError: There is none.
    """
    compiled: CodeType | None = getattr(code, "__code__", None)
    if compiled is None or compiled.co_name != "<lambda>":
        return inspect.getsource(compiled or code)
    text = "".join(inspect.findsource(compiled)[0])
    found = [node for node in ast.walk(ast.parse(text)) if _is_lambda_of(compiled, node)]
    if not found:
        raise OSError("the lambda is not in its source")
    return f"({ast.get_source_segment(text, found[-1])})"  # the innermost one


def _is_lambda_of(compiled: CodeType, node: ast.AST) -> bool:
    """Whether all that was compiled stands in the body of this lambda."""
    if not isinstance(node, ast.Lambda) or node.lineno != compiled.co_firstlineno:
        return False
    body = node.body
    first = body.lineno, body.col_offset
    last = body.end_lineno or 0, body.end_col_offset or 0
    return all(
        first <= (line, column) and (end_line, end_column) <= last
        for line, end_line, column, end_column in compiled.co_positions()
        if line and end_line and column is not None and end_column  # 0: it is no code of the user's
    )


def _named(code: Any, text: str) -> Iterator[Callable[..., Any]]:
    """Yield the functions and classes of its module that a function or class names."""
    module = code.__module__
    known = getattr(code, "__globals__", None) or getattr(sys.modules.get(module), "__dict__", {})
    for name in sorted(set(_NAME.findall(text)) & set(known)):
        value: Any = inspect.unwrap(known[name]) if callable(known[name]) else None
        is_code = inspect.isfunction(value) or inspect.isclass(value)
        if is_code and value.__module__ == module:
            yield value


def _bytecode(code: Any) -> str:
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
    """Return what an object prints, without where it lies in memory."""
    return _ADDRESS.sub("", text)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
