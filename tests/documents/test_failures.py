"""The page of failures: every warning and refusal of the library says what to do."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def failures():
    sys.path.append(str(ROOT / "docs" / "_extensions"))
    try:
        import failures

        yield failures
    finally:
        sys.path.pop()


def test_every_message_has_a_remedy(failures):
    for message in failures.read_all():
        told = failures.explain(message.text)  # raises where there is none
        assert all(map(str.strip, told)), message
        assert not told[1].startswith("got "), message


def test_warnings_are_those_of_results_and_refusals_those_that_are_seen(failures):
    texts = {message.text: message.kind for message in failures.read_all()}
    assert texts["the search did not converge; allow more steps=, starts= or a narrower prior"]
    assert not any("The weights help" in text for text in texts)  # of explain()
    assert "no plain real numbers" not in texts  # caught where it is raised


def test_a_message_without_a_remedy_is_refused(failures):
    assert failures.explain("m must be positive, got 0") == ("m", "be positive")
    assert failures.explain("m is 0; give more") == ("m is 0", "give more")
    with pytest.raises(ValueError, match="has no remedy"):
        failures.explain("m is 0")


def test_page_has_a_table_for_each_room(failures, tmp_path):
    failures.write_page(tmp_path / "failures.md")
    text = (tmp_path / "failures.md").read_text()
    assert text.count("### ") > 20
    assert "above 1.05 for" in text  # numbers that are known stand there
