"""Nobody waits for what is not used: heavy libraries, or JAX where help or a mistake is printed."""

import subprocess
import sys

import pytest

HEAVY = ("scipy.stats", "scipy.optimize", "scipy.spatial", "optax", "blackjax", "arviz", "pandas")
HEAVY += ("matplotlib", "rich", "typer", "owlfi.experiments")
NEEDED = {
    "plots": "matplotlib",
    "report": "matplotlib",
    "random_restarts": "optax",
}  # names that come with a heavy library

NAMES = f"""
import sys, owlfi
assert "jax" not in sys.modules, "owlfi imports JAX"
for name in set(owlfi.__all__) - {set(NEEDED)}:
    getattr(owlfi, name)
loaded = [library for library in {HEAVY} if library in sys.modules]
assert not loaded, loaded
"""

COMMANDS = """
import sys
from pathlib import Path
from typer.testing import CliRunner
from owlfi.cli.main import app

Path("wrong.toml").write_text("simulater = 'a:b'")
Path("wrong.sqlite").write_text("no store")
for code, line in (
    (0, "--help"), (0, "--version"), (0, "reproduce --help"), (0, "campaign run --help"),
    (2, "demo --nonsense"), (2, "nonsense"), (2, "demo --out wrong.toml"),
    (2, "reproduce table7"), (2, "reproduce table1 --out wrong.toml"),
    (1, "run none.toml"), (1, "run wrong.toml"), (1, "campaign new wrong.toml"),
    (1, "campaign status none.sqlite"), (1, "campaign run wrong.sqlite"),
):
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == code, (line, result.output)
    assert "jax" not in sys.modules, line
"""


@pytest.mark.parametrize("script", [NAMES, COMMANDS], ids=["names", "commands"])
def test_nothing_is_imported_that_is_not_used(script, tmp_path):
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
