from pathlib import Path

import pytest
from typer.testing import CliRunner

import owlfi
from owlfi.cli import app
from owlfi.experiments import demo

run = CliRunner().invoke


def test_version_is_printed() -> None:
    assert run(app, ["--version"]).stdout.strip() == f"owlfi {owlfi.__version__}"


def test_help_lists_the_commands() -> None:
    assert "demo" in run(app, ["--help"]).stdout


def test_every_command_shows_an_example() -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        assert f"Example: owlfi {name}" in run(app, [name, "--help"]).stdout


def test_unknown_option_is_named() -> None:
    result = run(app, ["demo", "--nonsense"])
    assert result.exit_code == 2
    assert "--nonsense" in result.output


def test_demo_prints_a_table_and_writes_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "SIMULATIONS", (8, 64))
    result = run(app, ["demo", "--out", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    assert "optimal weights" in result.stdout
    assert (tmp_path / "new" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_demo_shows_smaller_errors_with_optimal_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax
    import numpy as np

    monkeypatch.setattr(demo, "SIMULATIONS", (64,))
    (row,) = demo.errors(jax.random.key(3))
    assert np.median(row.optimal) < 0.5 * np.median(row.equal)
