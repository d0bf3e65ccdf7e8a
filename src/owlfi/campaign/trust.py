"""Whose code a store would run: what was named on this account, or by somebody else."""

import hmac
import os
import secrets
from functools import cache
from pathlib import Path

from owlfi.campaign.encoding import find_code

_KEY_BYTES = 32


def describe_code(recipe: str) -> str:
    """What running a recipe imports and executes, without doing so.

    >>> describe_code('"model:simulator"')
    'imports model:simulator'
    """
    paths, commands = find_code(recipe)
    told = "; ".join(
        [f"imports {path}" for path in paths] + [f"executes {command}" for command in commands]
    )
    # A terminal obeys other characters, which could hide the rest.
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in told)


def sign(recipe: str) -> str:
    """The mark of a recipe that was named on this account; nobody else can make it."""
    return hmac.digest(_own_key(), recipe.encode(), "sha256").hex()


def check_trust(path: Path, recipe: str, signature: str | None) -> None:
    """ValueError where a recipe has no mark of this account."""
    if not hmac.compare_digest(sign(recipe), signature or ""):
        raise ValueError(
            f"{path} was not made on this account, and running it {describe_code(recipe)}; where "
            "you know this code and whoever made the file, go on with trust=True (--trust)"
        )


@cache
def _own_key() -> bytes:
    """The secret of this account, made when it is first needed; of this process where it cannot."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    file = Path(state) / "owlfi" / "key"
    try:
        if not file.exists():
            _write_key(file)
        key = file.read_bytes()
    except (OSError, RuntimeError):
        key = b""
    return key if len(key) == _KEY_BYTES else secrets.token_bytes(_KEY_BYTES)


def _write_key(file: Path) -> None:
    """Whole or not at all; the first of several processes wins."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = file.with_name(f"key.{secrets.token_hex(8)}")
    unfinished.touch(mode=0o600)
    try:
        unfinished.write_bytes(secrets.token_bytes(_KEY_BYTES))
        os.link(unfinished, file)
    except FileExistsError:
        pass
    finally:
        unfinished.unlink()
