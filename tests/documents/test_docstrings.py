"""Every public name says in one sentence what it is, and shows it."""

import inspect

import pytest

import owlfi

NAMES = [
    *owlfi._MODULE_OF,
    *(f"models.{name}" for name in owlfi.models.__all__),
    *(f"plots.{name}" for name in owlfi.plots.__all__),
]


def find(name):
    thing = owlfi
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", NAMES)
def test_public_name_begins_with_a_sentence_and_has_an_example(name):
    text = inspect.getdoc(find(name))
    first = text.split("\n\n")[0].split(">>>")[0].strip()
    assert first.endswith((".", ":", "?")), first
    assert ">>> " in text
