"""Names that users give, as pictures can show them."""

from matplotlib.cbook import is_math_text
from matplotlib.mathtext import MathTextParser

_LONG = 40  # characters; tables and alternative texts have all of them


def as_label(text: str) -> str:
    r"""As matplotlib draws it without fail: as TeX where it can be read so, else as it stands.

    >>> as_label(r"$\beta$"), as_label(r"$\nosuch$"), as_label("_a")
    ('$\\beta$', '\\$\\nosuch\\$', ' _a')
    """
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not is_math_text(words) or not _is_tex(words):
        short = words if len(words) <= _LONG else f"{words[: _LONG - 1].rstrip()}…"
        words = short.replace("$", r"\$") if is_math_text(short) else short
    return f" {words}" if words.startswith("_") else words  # legends leave such labels out


def _is_tex(words: str) -> bool:
    try:
        MathTextParser("path").parse(words)
    except Exception:  # of its grammar, and of what it has no symbol, font or room for
        return False
    return True
