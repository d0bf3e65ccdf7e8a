"""Programs, called where they may be."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from owlfi import Normal, Simulator
from owlfi._tools import kept_programs, programs
from owlfi._tools.programs import compile_quickly, map_cases


def test_programs_serve_inside_of_others_with_numbers_and_without():
    double = compile_quickly(lambda x: 2 * x)
    assert float(jax.jit(lambda s: double(s) + double(np.float64(3.0)))(1.0)) == 8
    assert float(jax.grad(double)(1.0)) == 2


def test_options_that_xla_does_not_know_are_done_without():
    triple = programs._compile(lambda x: 3 * x, {"xla_has_no_such_option": True})
    assert float(triple(np.float64(2.0))) == 6


def test_errors_of_a_program_are_its_own():
    def refuse(x):
        raise ValueError("not this")

    with pytest.raises(ValueError, match="not this"):
        compile_quickly(refuse)(np.float64(1.0))


def test_programs_go_with_the_functions_that_they_were_compiled_for():
    call = compile_quickly(lambda function, x: function(x))

    class Shift:
        def __init__(self, by):
            self.by = by

        def add(self, x):
            return x + self.by

    def use(by):
        shift = Shift(by)
        for function in (shift.add, lambda x: x + shift.by):
            assert float(call(function, np.float64(1.0))) == 1 + by
            assert float(jax.jit(lambda x, f=function: call(f, x))(1.0)) == 1 + by
        return weakref.ref(shift)

    used = [use(by) for by in (1.0, 2.0)]
    gc.collect()
    assert not any(shift() for shift in used)


def add(shared, case):
    return shared + case[0] * case[1]


@pytest.mark.parametrize("count", [0, 1, 17])
def test_cases_are_those_that_there_are(count):
    cases = np.arange(float(count)), np.full(count, 2.0)
    found = map_cases(add, np.float64(1.0), cases)
    np.testing.assert_array_equal(found, 1 + 2 * np.arange(float(count)))
    traced = jax.jit(lambda c: map_cases(add, jnp.float64(1.0), c))(cases)
    np.testing.assert_array_equal(traced, found)


def test_a_long_wait_is_explained_once_in_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(programs, "_TOLD", [])
    monkeypatch.setattr(programs, "_PATIENCE", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for factor in (2.0, 3.0):
        compile_quickly(lambda x, factor=factor: factor * x)(np.float64(1.0))
    assert capsys.readouterr().err.count("compiled when it is first used") == 1


def test_programs_of_many_models_make_place_before_the_system_refuses_more(monkeypatch):
    double = compile_quickly(lambda function, x: 2 * function(x))
    models = [lambda x, a=a: a * x for a in range(3 * kept_programs._BETWEEN)]
    monkeypatch.setattr(kept_programs, "is_memory_full", lambda: True)
    forgotten = []
    monkeypatch.setattr(kept_programs, "forget_programs", lambda: forgotten.append(1))
    assert [float(double(model, np.float64(1.0))) for model in models] == list(
        np.arange(0.0, 2 * len(models), 2)
    )
    assert len(forgotten) == 3
    monkeypatch.undo()
    kept_programs.forget_programs()
    assert not any(kept.programs for kept in kept_programs._EVERY)
    assert float(double(models[1], np.float64(1.0))) == 2.0


@pytest.mark.parametrize(("maps", "full"), [(52_000, False), (53_000, True)])
def test_memory_is_full_where_most_of_its_maps_are_used(maps, full, monkeypatch, tmp_path):
    used, most = tmp_path / "maps", tmp_path / "most"
    used.write_text("7f00-7f01 r-xp\n" * maps)
    most.write_text("65530\n")
    monkeypatch.setattr(kept_programs, "_MAPS", used)
    monkeypatch.setattr(kept_programs, "_MOST_MAPS", most)
    assert kept_programs.is_memory_full() is full
    most.unlink()
    assert not kept_programs.is_memory_full()


def test_programs_serve_all_simulators_on_the_host_and_give_back_their_own():
    traced = []

    def shift(simulator, x):
        traced.append(simulator.parameters)
        return simulator, x + 1

    moved = compile_quickly(shift)
    for name, by in (("a", 1.0), ("b", 2.0)):
        model = Simulator(lambda t, u, by=by: by * np.asarray(u), Normal(), [name], on_host=True)
        own, two = moved(model, np.float64(1.0))
        assert own is model
        assert float(two) == 2
        inside = jax.jit(lambda x, model=model: moved(model, x)[1])(1.0)
        assert float(inside) == 2
    assert len(traced) == 2  # by itself, and inside of another


def test_generators_on_the_host_are_not_called_in_programs():
    model = Simulator(lambda t, u: np.asarray(u), Normal(), ["a"], on_host=True)
    with pytest.raises(ValueError, match="runs on the host and cannot be used inside"):
        compile_quickly(lambda model, u: model.rows(jnp.zeros(1), u))(model, np.zeros((2, 1)))


def test_flags_that_are_set_for_all_programs_are_left_alone(monkeypatch):
    options = {"xla_one": 1, "xla_two": 2}
    monkeypatch.setenv("XLA_FLAGS", "--xla_two=5")
    assert programs._leave_flags(options) == {"xla_one": 1}
    monkeypatch.setenv("XLA_FLAGS", "--xla_two=5 --xla_one=0")
    assert programs._leave_flags(options) is None
    monkeypatch.delenv("XLA_FLAGS")
    assert programs._leave_flags(options) == options


def test_garbage_is_looked_for_again_whatever_happens_in_a_program():
    seen = []

    def look(x, wrong):
        seen.append(gc.isenabled())
        if wrong:
            raise ValueError("not this")
        return x

    watched = compile_quickly(look)
    watched(np.float64(1.0), False)
    with pytest.raises(ValueError, match="not this"):
        watched(np.float64(1.0), True)
    assert gc.isenabled()
    gc.disable()
    try:
        watched(np.ones(2), False)
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert seen == [False] * 3
