"""The README is true: its example runs, and prints what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLE = re.search(r"```python\n(.*?)```", README, re.DOTALL)
ANSWER = re.search(r"```python\n((?:(?!```).)*?summary.*?)```\n\n```\n(.*?)```", README, re.DOTALL)
CAMPAIGN = re.search(r"```python\n((?:(?!```).)*?Campaign.*?)```", README, re.DOTALL)


def test_example_prints_the_numbers_beside_it() -> None:
    assert EXAMPLE is not None
    ran = subprocess.run(
        [sys.executable, "-c", EXAMPLE[1]], capture_output=True, text=True, check=True
    )
    printed = re.findall(r"squared MMD (\S+)", ran.stdout)
    assert len(printed) == 3
    assert f"It prints {printed[0]}, {printed[1]} and {printed[2]};" in README


def test_estimate_is_the_table_below_it() -> None:
    assert ANSWER is not None
    ran = subprocess.run(
        [sys.executable, "-c", ANSWER[1]], capture_output=True, text=True, check=True
    )
    for printed, shown in zip(ran.stdout.split(), ANSWER[2].split(), strict=True):
        # a tenth of a standard error: rounding may lead the tuning to another kernel as good
        assert printed == shown or float(printed) == pytest.approx(float(shown), abs=0.005)


def test_example_has_at_most_twenty_lines() -> None:
    assert EXAMPLE is not None
    assert len([line for line in EXAMPLE[1].splitlines() if line]) <= 20


def test_pictures_and_pages_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (Path(__file__).parents[2] / target).exists(), target


def test_campaign_of_ten_lines_runs_as_it_is(tmp_path: Path) -> None:
    assert CAMPAIGN is not None
    assert len([line for line in CAMPAIGN[1].splitlines() if line]) <= 10
    assert CAMPAIGN[1] in (Path(__file__).parents[2] / "docs" / "campaigns.md").read_text()
    (tmp_path / "script.py").write_text(CAMPAIGN[1])  # no guard: workers do not run it
    for _ in range(2):  # the second time, it comes back to what the first has done
        ran = subprocess.run(
            [sys.executable, "script.py"], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert "Status(total=100, done=100, failed=0" in ran.stdout


@pytest.mark.parametrize(
    "name", ["inference.md", "tuning.md", pytest.param("testing.md", marks=pytest.mark.slow)]
)
def test_page_runs_as_it_is(name: str, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / name).read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)
