"""Designs that go out as files, and results that come back."""

import csv
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import campaign_models as models
from owlfi import Normal, Simulator, SquaredExponential, equal_weights
from owlfi.campaign import Campaign
from owlfi.campaign.exchange import export_design, import_results, make_slurm_script, work

POINTS = np.array([[0.1, 1 / 3], [1.5, 2.0], [-1.0, 1.0]])


@pytest.fixture
def campaign(tmp_path):
    simulator = Simulator(models.in_numpy, Normal(dim=2), ["a"], on_host=True)
    q = equal_weights(SquaredExponential(1.0), simulator.measure, POINTS)
    return Campaign.create(tmp_path / "runs.sqlite", simulator, [1.0, np.pi], q)


def expected():
    return np.array([models.in_numpy([a], POINTS) for a in (1.0, np.pi)])


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def results(campaign, tmp_path):
    """Results of the whole design, as a user's own program might write them."""
    export_design(campaign, tmp_path / "design.csv")
    design = rows(tmp_path / "design.csv")
    u = np.array([[float(row["u_1"]), float(row["u_2"])] for row in design])
    y = [models.in_numpy([float(r["a"])], v[None])[0] for r, v in zip(design, u, strict=True)]
    return [{**r, "y_1": repr(float(a)), "y_2": repr(float(b))}
            for r, (a, b) in zip(design, y, strict=True)]  # fmt: skip


def test_csv_goes_out_and_comes_back_with_all_digits(campaign, tmp_path):
    found = results(campaign, tmp_path)
    assert [float(row["u_2"]) for row in found] == [1 / 3, 2.0, 1.0] * 2
    part = write(tmp_path / "part.csv", found[:2])
    assert import_results(campaign, [part]) == 2
    assert import_results(campaign, [part]) == 0
    assert export_design(campaign, tmp_path / "rest.csv") == 4
    whole = write(tmp_path / "whole.csv", found[::-1])
    assert import_results(campaign, [whole]) == 4
    assert np.asarray(campaign.results().y).tobytes() == expected().tobytes()


def test_parameters_with_the_names_of_other_columns_go_by_npz(tmp_path):
    simulator = Simulator(models.scaled, Normal(), ["y_1"], on_host=True)
    points = equal_weights(SquaredExponential(1.0), Normal(), [-1.0, 2.0])
    campaign = Campaign.create(tmp_path / "runs.sqlite", simulator, [3.0], points)
    with pytest.raises(ValueError, match=r"parameter 'y_1' has the name .* write .npz"):
        export_design(campaign, tmp_path / "design.csv")
    export_design(campaign, tmp_path / "design.npz")
    with np.load(tmp_path / "design.npz") as design:
        np.savez(tmp_path / "done.npz", run=design["run"], y=design["theta"] * design["u"])
    assert import_results(campaign, [tmp_path / "done.npz"]) == 2
    assert np.asarray(campaign.results().y).ravel().tolist() == [-3.0, 6.0]


def test_npz_goes_out_and_comes_back(campaign, tmp_path):
    assert export_design(campaign, tmp_path / "design.npz") == 6
    with np.load(tmp_path / "design.npz") as design:
        assert_array_equal(design["u"], np.tile(POINTS, (2, 1)))
        np.savez(tmp_path / "out.npz", run=design["run"], y=expected().reshape(6, 2))
    import_results(campaign, [tmp_path / "out.npz"])
    assert np.asarray(campaign.results().y).tobytes() == expected().tobytes()


def test_tasks_of_a_job_array_share_the_design_and_go_on_after_a_kill(campaign, tmp_path):
    export_design(campaign, tmp_path / "design.npz")
    files = [tmp_path / f"results-{task}.csv" for task in range(2)]
    assert [
        work(tmp_path / "design.npz", file, task=task, tasks=2) for task, file in enumerate(files)
    ] == [3, 3]
    whole = files[1].read_text()
    files[1].write_text(whole[: whole.rfind(",")])  # killed while it wrote the last line
    assert work(tmp_path / "design.npz", files[1], task=1, tasks=2) == 1
    assert import_results(campaign, files) == 6
    assert np.asarray(campaign.results().y).tobytes() == expected().tobytes()


def test_job_array_keeps_all_of_y_where_the_first_run_fails(tmp_path):
    simulator = Simulator(models.fails_below, Normal(), ["a"], on_host=True)
    q = equal_weights(SquaredExponential(1.0), simulator.measure, [-1.0, 1.0, 2.0])
    campaign = Campaign.create(tmp_path / "runs.sqlite", simulator, [1.0], q)
    export_design(campaign, tmp_path / "design.npz")
    work(tmp_path / "design.npz", tmp_path / "out.csv")
    assert import_results(campaign, [tmp_path / "out.csv"]) == 3
    assert campaign.status().failures == {"exception": 1}
    assert "no solution below 0" in campaign.failures()
    with pytest.warns(UserWarning, match="bias"):
        y = campaign.results(on_failure="reweight").y
    assert_array_equal(y[0, 1:], [[1.0, 2.0], [2.0, 3.0]])


def test_job_array_continues_only_files_of_its_own(campaign, tmp_path):
    export_design(campaign, tmp_path / "design.npz")
    write(tmp_path / "x.csv", results(campaign, tmp_path))
    with pytest.raises(ValueError, match=r"x.csv cannot be continued: its columns are run, a"):
        work(tmp_path / "design.npz", tmp_path / "x.csv")


def test_script_of_the_job_array_is_shell_and_names_its_files(tmp_path):
    names = {"store": "runs.sqlite", "design": "design.npz", "script": "job.sh"}
    text = make_slurm_script(**names, tasks=3)
    (tmp_path / "job.sh").write_text(text)
    subprocess.run(["sh", "-n", tmp_path / "job.sh"], check=True)
    assert "--array=0-2" in text
    assert "owlfi campaign import runs.sqlite results-*.csv" in text
    with pytest.raises(ValueError, match=r"needs a design that ends in .npz"):
        make_slurm_script(**names | {"design": "design.csv"}, tasks=3)


def test_failures_come_back_too(campaign, tmp_path):
    found = results(campaign, tmp_path)
    found = [row | {"state": "", "error": ""} for row in found]
    found[0] |= {"y_1": "", "y_2": "", "error": "no solution"}
    found[1] |= {"y_1": "nan"}
    import_results(campaign, [write(tmp_path / "x.csv", found)])
    assert campaign.status().failures == {"exception": 1, "not finite": 1}
    assert_array_equal(campaign.results().thetas, [[np.pi]])


def test_rows_that_say_nothing_stay_to_be_made(campaign, tmp_path):
    found = results(campaign, tmp_path)
    found[0] |= {"y_1": "", "y_2": ""}
    assert import_results(campaign, [write(tmp_path / "x.csv", found)]) == 5
    assert campaign.status().waiting == 1


def test_files_without_y_are_refused_and_y_may_be_one_column(campaign, tmp_path):
    found = results(campaign, tmp_path)
    lacking = [{name: row[name] for name in ("run", "a", "u_1")} for row in found]
    with pytest.raises(ValueError, match="no column of results; its columns are run, a, u_1"):
        import_results(campaign, [write(tmp_path / "x.csv", lacking)])
    assert campaign.status().waiting == 6
    joined = [{"run": row["run"], "y": f"{row['y_1']} {row['y_2']}"} for row in found]
    assert import_results(campaign, [write(tmp_path / "y.csv", joined)]) == 6
    assert np.asarray(campaign.results().y).tobytes() == expected().tobytes()


def test_columns_of_y_may_stand_in_any_order(campaign, tmp_path):
    found = [dict(reversed(row.items())) for row in results(campaign, tmp_path)]
    import_results(campaign, [write(tmp_path / "x.csv", found)])
    assert np.asarray(campaign.results().y).tobytes() == expected().tobytes()


def test_last_line_needs_no_end_but_all_its_cells(campaign, tmp_path):
    path = write(tmp_path / "x.csv", results(campaign, tmp_path))
    whole = path.read_text().rstrip()
    path.write_text(whole[: whole.rfind(",")])
    assert import_results(campaign, [path]) == 5
    path.write_text(whole)
    assert import_results(campaign, [path]) == 1


def test_line_of_a_job_array_that_was_cut_off_is_left_out(campaign, tmp_path):
    export_design(campaign, tmp_path / "design.npz")
    work(tmp_path / "design.npz", tmp_path / "out.csv")
    whole = (tmp_path / "out.csv").read_text().rstrip()
    (tmp_path / "out.csv").write_text(whole[:-1])
    assert import_results(campaign, [tmp_path / "out.csv"]) == 5
    (tmp_path / "out.csv").write_text(whole)
    assert import_results(campaign, [tmp_path / "out.csv"]) == 1


def test_surplus_cells_are_refused(campaign, tmp_path):
    path = write(tmp_path / "x.csv", results(campaign, tmp_path))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], f"{lines[2]},7.0", *lines[3:]]))
    with pytest.raises(ValueError, match=r"x.csv, line 3 has 1 more cells than the header"):
        import_results(campaign, [path])


@pytest.mark.parametrize(
    ("state", "message"),
    [("done", "state is done, but y is empty"), ("failed", "state must be one of done, exc")],
)
def test_states_that_cannot_be_are_refused(campaign, tmp_path, state, message):
    found = results(campaign, tmp_path)
    found[0] |= {"y_1": "", "y_2": "", "state": state}
    with pytest.raises(ValueError, match=f"line 2: {message}"):
        import_results(campaign, [write(tmp_path / "x.csv", found[:1])])


def test_npz_says_what_it_lacks_and_takes_one_number_a_run(tmp_path):
    simulator = Simulator(models.scaled, Normal(), ["a"], on_host=True)
    q = equal_weights(SquaredExponential(1.0), simulator.measure, [-1.0, 1.0])
    campaign = Campaign.create(tmp_path / "runs.sqlite", simulator, [1.0], q)
    export_design(campaign, tmp_path / "design.npz")
    with np.load(tmp_path / "design.npz") as design:
        names = design["run"]
    np.savez(tmp_path / "x.npz", y=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"x.npz has no array run; its arrays are y: save"):
        import_results(campaign, [tmp_path / "x.npz"])
    np.savez(tmp_path / "y.npz", run=names, y=[-1.0, 1.0])
    assert import_results(campaign, [tmp_path / "y.npz"]) == 2
    assert_array_equal(campaign.results().y, [[[-1.0], [1.0]]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": "ab" * 16}, "x.csv, line 3: there is no run 'abab"),
        ({"a": "1.01"}, "x.csv, line 3: a is 1.01, in the design it is 1.0"),
        ({"u_1": "7"}, "line 3: u_1 is 7, in the design it is 1.5"),
        ({"y_1": "much"}, "line 3: 'much' is no number"),
        ({"y_2": ""}, "line 3: y_2 is empty; give all of y"),
    ],
)
def test_what_does_not_belong_is_refused_and_nothing_is_read(campaign, tmp_path, change, message):
    found = results(campaign, tmp_path)
    found[1] |= change
    with pytest.raises(ValueError, match=message):
        import_results(campaign, [write(tmp_path / "x.csv", found)])
    assert campaign.status().done == 0


def test_results_that_contradict_what_is_known_are_refused(campaign, tmp_path):
    found = results(campaign, tmp_path)
    campaign.run(executor="here", budget=2, check=False)
    other = write(tmp_path / "x.csv", [found[0] | {"y_1": "3.0"}])
    with pytest.raises(ValueError, match="the campaign's own simulator"):
        import_results(campaign, [other])
    twice = write(tmp_path / "y.csv", [found[4], found[4] | {"y_1": "3.0"}])
    with pytest.raises(ValueError, match="two different results"):
        import_results(campaign, [twice])


def test_designs_that_are_none_are_refused(campaign, tmp_path):
    (tmp_path / "x.npz").write_text("no array")
    with pytest.raises(ValueError, match=r"x.npz is no NPZ file; export the design"):
        work(tmp_path / "x.npz", tmp_path / "out.csv")
    np.savez(tmp_path / "y.npz", run=["a"])
    with pytest.raises(ValueError, match=r"y.npz has no array recipe; its arrays are run: export"):
        work(tmp_path / "y.npz", tmp_path / "out.csv")


def test_other_files_are_refused(campaign, tmp_path):
    with pytest.raises(ValueError, match=r"must end in .csv or .npz, got design.xls"):
        export_design(campaign, tmp_path / "design.xls")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="has no column run"):
        import_results(campaign, [tmp_path / "x.csv"])
