"""Simulators on the host, as programs know them: they never run there, so that one serves all."""

from dataclasses import dataclass
from typing import Any, TypeVar

import jax
from jaxtyping import PyTree

Kind = TypeVar("Kind", bound=type)
_KINDS: set[type] = set()


def stands_aside(kind: Kind) -> Kind:
    """For a class of modules with a `generator`, and a `stand_in` for it where it is `on_host`."""
    _KINDS.add(kind)
    return kind


@dataclass(frozen=True)
class StandIn:
    """Instead of a generator: its place among those of the arguments.

    >>> StandIn(0) == StandIn(0)
    True
    """

    place: int

    def __call__(self, theta: Any, u: Any) -> Any:
        raise ValueError(
            "the generator runs on the host and cannot be used inside of a program; call it "
            "outside and pass y in"
        )


def set_aside(tree: PyTree) -> tuple[PyTree, list[Any]]:
    """The tree with stand-ins for what runs on the host, and what that is."""
    nodes, form = jax.tree.flatten(tree, is_leaf=_may_stand_aside)
    aside = list({id(node): node for node in nodes if _is_on_host(node)}.values())
    if not aside:
        return tree, aside
    places = {id(node): place for place, node in enumerate(aside)}
    known = [
        node.stand_in(StandIn(places[id(node)])) if id(node) in places else node for node in nodes
    ]
    return jax.tree.unflatten(form, known), aside


def put_back(tree: PyTree, aside: list[Any]) -> PyTree:
    """What a program returned, with what was set aside for it."""

    def restore(node: Any) -> Any:
        known = _is_on_host(node) and isinstance(node.generator, StandIn)
        return aside[node.generator.place] if known else node

    return jax.tree.map(restore, tree, is_leaf=_may_stand_aside) if aside else tree


def _may_stand_aside(node: Any) -> bool:
    return type(node) in _KINDS


def _is_on_host(node: Any) -> bool:
    return type(node) in _KINDS and node.on_host
