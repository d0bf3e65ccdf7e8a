"""Docstrings of owlfi as reStructuredText: they are plain text with `names: meanings`."""

import inspect
import re
from typing import Any

import owlfi

_SPECIAL = re.compile(r"([*_|\\])")
_PARAMETER = re.compile(r"^((?:\*{0,2}\w+)(?:, \w+)*): (.*)$")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", shorten)
    return {"parallel_read_safe": True}


def shorten(_app, _kind, _name, _what, _options, signature, returned):
    """Signatures by short names: `Float[Array, 'm s']` instead of the modules it comes from."""
    return _short(signature), None if returned in (None, "None") else _short(returned)


def _short(text: str | None) -> str | None:
    if text is None:
        return None
    text = re.sub(r"<function (\w+)(?: at 0x[0-9a-f]+)?>", r"\1", text)
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", text)
    text = text.replace("Union[Key[Array, ''], UInt32[Array, '2'], UInt32[Array, '4']]", "Key")
    return text.replace("Key[Array, '']", "Key").replace(" -> None", "")


def rewrite(_app, _kind, _name, what, _options, lines: list[str]) -> None:
    """In place, as Sphinx wants it."""
    lines[:] = as_rst("\n".join(lines))


def as_rst(text: str) -> list[str]:
    """Paragraphs, parameters and examples of a docstring."""
    written: list[str] = []
    for block in _blocks(inspect.cleandoc(text)):
        first = block[0]
        if first.startswith(">>>"):
            written += [".. code-block:: pycon", "", *(f"   {line}" for line in block), ""]
        elif first.startswith("    "):
            written += ["::", "", *block, ""]
        elif _PARAMETER.match(first):
            written += [*_fields(block), ""]
        else:
            written += [_inline(" ".join(block)), ""]
    return written


def _blocks(text: str) -> list[list[str]]:
    """Runs of lines that belong together; an example begins one of its own, and so do fields."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        example = bool(blocks[-1]) and blocks[-1][0].startswith(">>>")
        starts_fields = _PARAMETER.match(line) and not example
        inside = bool(blocks[-1]) and _PARAMETER.match(blocks[-1][0])
        if not line.strip():
            blocks.append([])
            continue
        begins = (line.startswith(">>>") and not example) or (starts_fields and not inside)
        if begins or (inside and not line.startswith("    ") and not starts_fields):
            blocks.append([])
        blocks[-1].append(line)
    return [block for block in blocks if block]


def _fields(block: list[str]) -> list[str]:
    """A list of definitions: names of parameters, and what they mean."""
    written: list[str] = []
    for line in block:
        found = _PARAMETER.match(line)
        if found:
            written += [", ".join(f"``{name}``" for name in found[1].split(", ")), ""]
        text = found[2] if found else line.strip()
        written[-1] = f"    {written[-1].strip()} {text}"
    return [_inline_text(line) for line in written]


def _inline_text(line: str) -> str:
    """Of a definition; its name is written already."""
    return f"    {_inline(line.strip())}" if line.startswith("    ") else line


def _inline(line: str) -> str:
    """Code in backticks becomes a link where it is a public name; nothing else is markup."""
    parts = re.split(r"`([^`]+)`", line)
    for i, part in enumerate(parts):
        parts[i] = _code(part) if i % 2 else _escape(part)
    return re.sub(r"^(\w{1,3}[.)]) ", r"\\\1 ", "".join(parts))  # "c. " would number a list


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _code(code: str) -> str:
    name = code.removeprefix("owlfi.").removesuffix("()")
    return f":py:obj:`{code} <owlfi.{name}>`\\ " if name in owlfi.__all__ else f"``{code}``\\ "
