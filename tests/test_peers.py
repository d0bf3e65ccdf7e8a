"""What `make compare` does without the peers: it resumes, counts and says who is ahead."""

from collections import Counter

import numpy as np
import pytest
from benchmarks.compare.cells import Cell, gather
from benchmarks.compare.peer import Answer, Peer, from_draws, rows_a_set
from benchmarks.compare.plan import fit, list_steps
from benchmarks.compare.records import Records, Step, resume
from benchmarks.compare.report import judge, write_page
from benchmarks.compare.tasks import TASKS, Purse, SpentError

ABOUT = {"owlfi": "1", "seed": 0}
MA = TASKS[1]
STEPS = [Step("MA(2)", False, number, "guess", 1_000) for number in range(5)]


class Guess(Peer):
    name, about = "guess", "always the same"

    def infer(self, task, x, budget, seed):
        if seed == 1:
            raise ValueError("no idea")
        return Answer(np.array(task.truth), *task.bounds, calls=budget)


class Absent(Guess):
    name, needs, data_sets = "absent", ("no_such_library",), 10


def test_a_run_that_was_killed_goes_on(tmp_path):
    made = []

    def note(step):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(step)
        return {"calls": 7}

    records = Records(tmp_path / "records.jsonl", ABOUT)
    with pytest.raises(KeyboardInterrupt):
        resume(records, STEPS, note)
    with records.path.open("a") as file:
        file.write('{"task": "MA(2)", "spo')  # killed while it wrote
    again = Records(records.path, ABOUT)
    resume(again, STEPS, lambda step: made.append(step) or {"calls": 7})
    assert made == STEPS
    assert [Step.of(record) for record in Records(records.path, ABOUT).all] == STEPS


def test_fits_of_another_version_are_refused(tmp_path):
    Records(tmp_path / "records.jsonl", ABOUT)
    with pytest.raises(ValueError, match="move it away"):
        Records(tmp_path / "records.jsonl", ABOUT | {"owlfi": "2"})


def test_every_row_is_a_call_and_none_is_made_beyond_the_budget():
    purse = Purse(MA, 100, seed=0)
    assert purse.simulate(purse.draw_prior(3), 30).shape == (3, 30, 10)
    assert purse.calls == 90
    with pytest.raises(SpentError):
        purse.simulate(purse.draw_prior(1), 11)
    assert purse.calls == 90


def test_data_sets_have_fewer_rows_where_the_budget_is_small():
    assert [rows_a_set(MA, budget) for budget in (1_000, 10_000, 100_000)] == [20, 200, 200]


def test_strays_leave_the_other_rows_as_they_are():
    clean, spoilt = MA.data(3, False), MA.data(3, True)
    assert (clean[20:] == spoilt[20:]).all()
    assert spoilt[:20].min() > 40 > clean.max()


def test_all_peers_see_the_same_data_sets():
    steps = list(list_steps([Guess(), Absent()], (1_000,), tasks=(MA,)))
    assert Counter(step.peer for step in steps) == {"guess": 100, "absent": 20}
    assert {step.number for step in steps if step.peer == "absent"} == set(range(10))
    assert len(set(steps)) == len(steps)


def test_draws_have_weights():
    draws, weights = np.array([[3.0], [1.0], [2.0]]), [0.02, 0.02, 0.96]
    answer = from_draws(draws, 0, weights=weights)
    assert (answer.theta, answer.low, answer.high) == (pytest.approx(2.0), 2.0, 2.0)


def test_a_fit_without_an_answer_counts_as_the_mean_of_the_prior():
    records = [step._asdict() | fit(Guess(), step) for step in STEPS[:2]]
    assert "no idea" in records[1]["failure"]
    (cell,) = gather(TASKS, ["guess"], records)
    assert (cell.data_sets, cell.failed, cell.coverage) == (2, 1, 0.5)
    errors = np.array(MA.truth) / (2 / 12**0.5)  # the prior is uniform on (-1, 1)
    assert cell.rmse == pytest.approx(np.abs(errors).mean() / 2**0.5)


def test_the_page_says_who_is_ahead_and_what_is_missing():
    def cell(peer, budget, rmse):
        return Cell("MA(2)", False, budget, peer, 10, 1, rmse, 0.01, 0.9, 990, 0, 0.1)

    cells = [
        cell("MLE", 0, 0.1),
        cell("owlfi efficient", 1_000, 0.3),
        cell("guess", 1_000, 0.2),
        cell("owlfi efficient", 100_000, 0.21),
        cell("guess", 100_000, 0.2),
    ]
    assert [row[-1] for row in judge(cells)] == ["NO", "yes"]
    failing = [cells[3]._replace(failed=5, rmse=0.1), cells[4]]
    assert [row[-1] for row in judge(failing)] == ["NO"]
    missing = Absent()
    page = write_page(cells, [Guess(), missing], {missing.name: missing.find_fault()}, {})
    assert "absent did not install**: ModuleNotFoundError" in page
    assert "10, 1 without an answer" in page
