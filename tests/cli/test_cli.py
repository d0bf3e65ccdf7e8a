import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import owlfi
from owlfi.cli.main import app
from owlfi.cli.start import interrupt
from owlfi.experiments import EXPERIMENTS, demo
from owlfi.experiments.curves import make_point
from owlfi.problem.rules import Rule

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


@pytest.mark.parametrize(
    "rule",
    [
        owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern()),
        pytest.param(demo.RULE, marks=pytest.mark.slow),
    ],
    ids=["small", "usual"],
)
def test_demo_fits_the_rates_and_writes_a_picture(
    rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "RULE", rule)
    result = run(app, ["demo", "--out", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    for word in ("location", "kurtosis", "simulator calls"):
        assert word in result.stdout
    assert (tmp_path / "new" / "demo.png").read_bytes().startswith(b"\x89PNG")


def three_points(key: Any, plan: Any, *, stop_after: int = 3) -> Iterator[dict[str, Any]]:
    for m in (1, 2, 4)[:stop_after]:
        yield make_point("equal weights", m, [1 / m] * plan.repeats)
    if stop_after < 3:
        raise KeyboardInterrupt


def interrupted(key: Any, plan: Any) -> Iterator[dict[str, Any]]:
    return three_points(key, plan, stop_after=2)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = replace(EXPERIMENTS["figure3a"], name="small", run=three_points, steps=lambda plan: 3)
    monkeypatch.setitem(EXPERIMENTS, "small", usual)
    monkeypatch.setitem(EXPERIMENTS, "interrupted", replace(usual, run=interrupted))


def test_reproduce_without_a_name_lists_the_experiments() -> None:
    listed = run(app, ["reproduce"]).stdout
    assert all(name in listed for name in EXPERIMENTS)
    assert "min" in listed


def test_reproduce_of_an_unknown_name_lists_the_known_ones() -> None:
    result = run(app, ["reproduce", "table7"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "table7" in result.output
    assert "convergence" in result.output


@pytest.mark.parametrize("command", [["demo"], ["reproduce", "table1"]])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(command, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    result = run(app, [*command, "--out", str(tmp_path / "file" / "folder")])
    assert result.exit_code == 2
    assert "nothing can be" in result.output


def test_seeds_are_checked() -> None:
    result = run(app, ["demo", "--seed", "9" * 30])
    assert result.exit_code == 2


def test_reproduce_refuses_no_repeats() -> None:
    assert run(app, ["reproduce", "table1", "--repeats", "0"]).exit_code == 2


def test_reproduce_prints_a_table_and_writes_files(small: None, tmp_path: Path) -> None:
    arguments = ["reproduce", "small", "--repeats", "2", "--seed", "7", "--out", str(tmp_path)]
    result = run(app, arguments)
    assert result.exit_code == 0, result.output
    assert "2.50e-01" in result.stdout
    content = json.loads((tmp_path / "small.json").read_text())
    assert (content["seed"], content["repeats"], content["complete"]) == (7, 2, True)
    assert [point["x"] for point in content["results"]] == [1, 2, 4]
    assert (tmp_path / "small.png").read_bytes().startswith(b"\x89PNG")


def test_interrupted_experiment_keeps_what_is_finished(small: None, tmp_path: Path) -> None:
    result = run(app, ["reproduce", "interrupted", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "Stopped after 2 of 3 steps" in result.stdout
    content = json.loads((tmp_path / "small.json").read_text())
    assert not content["complete"]
    assert len(content["results"]) == 2


@pytest.mark.parametrize("seconds", [0.2, 0.6, 1.2])
def test_interrupt_while_modules_are_imported_is_one_line(tmp_path: Path, seconds: float) -> None:
    program = (
        "from threading import Timer; import signal; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from owlfi.cli.start import start; "
        f"Timer({seconds}, signal.raise_signal, [signal.SIGINT]).start(); start()"
    )
    call = [sys.executable, "-c", program, "demo", "--out", str(tmp_path)]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Stopped.\n")


def test_interrupts_inside_the_callback_of_jax_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", sent.append)

    def _xla_gc_callback() -> None:
        interrupt(signal.SIGINT, sys._getframe())

    _xla_gc_callback()
    deadline = time.monotonic() + 10
    while not sent and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sent == [signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, sys._getframe())
