"""The README is true: its examples run, and print what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = r"((?:(?!```).)*)```"
# code, and what it prints
ANSWER = re.search(rf"```python\n{BLOCK}\n\n```\n{BLOCK}", README, re.DOTALL)
COUNT = """
import jax
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: event.endswith("backend_compile_duration") and compiled.append(event)
)
"""
CAMPAIGN = re.search(
    r"```python\n((?:(?!```).)*?Campaign.*?)```",
    (ROOT / "docs" / "campaigns.md").read_text(),
    re.DOTALL,
)


def run(code: str) -> tuple[str, int]:
    """What it prints, and how many programs are compiled for it, or read from those kept."""
    counted = (
        f"{COUNT}{code}\nimport sys; assert 'scipy.stats' not in sys.modules\nprint(len(compiled))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", counted], capture_output=True, text=True, check=True
    )
    printed, _, programs = ran.stdout.strip().rpartition("\n")
    return printed, int(programs)


def test_squared_mmd_needs_few_programs_and_few_runs() -> None:
    text, programs = run((ROOT / "examples" / "squared_mmd.py").read_text())
    assert programs <= 28  # ten of them are the operations of the simulator
    printed = [float(number) for number in re.findall(r"squared MMD (\S+)", text)]
    assert printed == pytest.approx([0.0170, 0.0053, 0.0263], abs=3.1e-4)  # of 16,384 runs


def test_estimate_is_the_table_below_it() -> None:
    assert ANSWER is not None
    text, programs = run(ANSWER[1])
    assert programs <= 40
    for printed, shown in zip(text.split(), ANSWER[2].split(), strict=True):
        # a tenth of a standard error: rounding may lead the tuning to another kernel as good
        assert printed == shown or float(printed) == pytest.approx(float(shown), abs=0.005)


def test_readme_is_short() -> None:
    assert len(README.splitlines()) < 100


def test_pictures_and_pages_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_campaign_of_ten_lines_runs_as_it_is(tmp_path: Path) -> None:
    assert CAMPAIGN is not None
    assert len([line for line in CAMPAIGN[1].splitlines() if line]) <= 10
    (tmp_path / "script.py").write_text(CAMPAIGN[1])  # no guard: workers do not run it
    for _ in range(2):  # the second time, it comes back to what the first has done
        ran = subprocess.run(
            [sys.executable, "script.py"], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert "Status(total=100, done=100, failed=0" in ran.stdout


@pytest.mark.slow
def test_own_simulator_to_posterior_in_eight_lines() -> None:
    block = re.search(r"```python\n((?:(?!```).)*?from_random.*?)```", README, re.DOTALL)
    assert block is not None
    assert len([line for line in block[1].splitlines() if line]) <= 8
    ran = subprocess.run(
        [sys.executable, "-c", block[1]], capture_output=True, text=True, check=True
    )
    lines = {line.split()[0]: line.split() for line in ran.stdout.splitlines() if line}
    assert abs(float(lines["scale"][1]) - 2.0) < 1.0
    assert abs(float(lines["shape"][1]) - 1.5) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("name", ["checking.md", "testing.md"])
def test_page_that_the_site_does_not_run_runs(name: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / name).read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)
