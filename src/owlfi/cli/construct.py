"""Measures and kernels from text: constructors of owlfi with plain numbers, nothing else."""

import ast
from typing import Any

import owlfi
from owlfi.kernels import Kernel
from owlfi.measures import Measure


def construct(text: str) -> Any:
    """A measure or kernel of owlfi from its constructor as text, with plain numbers only.

    Raises ValueError for anything else, SyntaxError for text that is no expression.

    >>> construct("Product(Normal(0, 1), Uniform(-1, 1, dim=2))").dim
    3
    """
    if not isinstance(text, str):
        raise ValueError(f'must be text such as "Normal(0, 1)", got {text!r}')
    return _evaluate(ast.parse(text.strip(), mode="eval").body, text)


def _evaluate(node: ast.AST, text: str) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        kind = getattr(owlfi, node.func.id, None)
        if isinstance(kind, type) and issubclass(kind, Measure | Kernel):
            named = {word.arg: _evaluate(word.value, text) for word in node.keywords if word.arg}
            return kind(*(_evaluate(argument, text) for argument in node.args), **named)
        raise ValueError(f"owlfi has no measure or kernel {node.func.id!r}")
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f'{text!r} must look like "Normal(0, 1)"') from None
