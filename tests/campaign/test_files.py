"""The file of a campaign: made once, one name, nothing executed to read it, damage noticed."""

import base64
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from socket import gethostname
from tempfile import gettempdir

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from filelock import Timeout
from typer.testing import CliRunner

import campaign_models as models
from owlfi import Normal, Simulator, SquaredExponential, equal_weights
from owlfi.campaign import Campaign
from owlfi.campaign.assemble import decode_rounds
from owlfi.campaign.database import StoreError, StoreExistsError, create_file, hold_file
from owlfi.campaign.encoding import decode, encode
from owlfi.campaign.exchange import export_design, work
from owlfi.campaign.store import Run, Store, digest
from owlfi.cli.main import app
from owlfi.weights.kernel_fit import KernelFit
from strictness import unchecked

HERE = {"executor": "here", "check": False}
POINTS = equal_weights(SquaredExponential(1.0), Normal(), [-1.0, 0.5, 2.0])


def campaign_of(folder, function=models.scaled, thetas=(1.0, 2.0)):
    simulator = Simulator(function, Normal(), ["a"], on_host=True)
    return Campaign.create(folder / "runs.sqlite", simulator, list(thetas), POINTS)


def command(*words):
    return CliRunner().invoke(app, ["campaign", *map(str, words)])


def rewrite(path, **facts):
    """As somebody would who knows the format."""
    with closing(Store.open(path)) as store:
        store.put(**facts)


# Made once


def test_processes_that_make_the_same_store_make_one(tmp_path):
    def create(number):
        try:
            Store.create(tmp_path / f"{number // 4}.sqlite", recipe=number)
        except StoreExistsError:
            return None
        return number

    with ThreadPoolExecutor(4) as threads:
        made = [number for number in threads.map(create, range(80)) if number is not None]
    assert len(made) == 20
    for number in made:
        with closing(Store.open(tmp_path / f"{number // 4}.sqlite")) as store:
            assert store.fact("recipe") == number


def test_store_that_appears_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "runs.sqlite"
    with pytest.raises(StoreExistsError):
        create_file(path, lambda connection: path.write_text("of somebody else"))
    assert path.read_text() == "of somebody else"
    assert {file.name for file in tmp_path.iterdir()} == {"runs.sqlite", "runs.sqlite.lock"}


def test_what_a_killed_process_left_is_removed_and_logs_of_lost_stores_are_kept(tmp_path):
    (tmp_path / ".runs.sqlite.new-1").write_text("half")
    campaign_of(tmp_path)
    assert not (tmp_path / ".runs.sqlite.new-1").exists()
    (tmp_path / "other.sqlite-wal").write_text("runs")
    with pytest.raises(ValueError, match=r"other.sqlite-wal is the log of a store that is not"):
        Store.create(tmp_path / "other.sqlite")


@pytest.mark.parametrize(
    "script",
    [
        "",
        "CREATE TABLE facts (name, value, checksum)",
        "CREATE TABLE facts (name, value, checksum); INSERT INTO facts VALUES ('version', '2', 0)",
    ],
)
def test_store_that_was_never_finished_is_said(tmp_path, script):
    with closing(sqlite3.connect(tmp_path / "half.sqlite")) as connection:
        connection.executescript(script)
    with pytest.raises(ValueError, match="or one that was never finished"):
        Campaign.open(tmp_path / "half.sqlite")


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        "CREATE VIEW v AS SELECT 1",
    ],
)
def test_store_with_triggers_or_views_is_nobodys(tmp_path, script):
    campaign = campaign_of(tmp_path)
    with closing(sqlite3.connect(campaign.path)) as connection:
        connection.executescript(script)
    with pytest.raises(ValueError, match="triggers or views"):
        campaign.run(executor="here")


# One name


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_to_a_store_share_its_lock_and_its_log(tmp_path, link):
    campaign = campaign_of(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "other.sqlite"
    link(campaign.path, other)
    messages = []

    def second_driver(progress):
        with pytest.raises(ValueError, match="is being run by process") as error:
            Campaign.open(other).run(executor="here")
        messages.append(error)
        assert Campaign.open(other).status().done == progress.done > 0

    assert campaign.run(executor="here", report=second_driver).done == 6
    assert messages
    assert Campaign.open(other).results().y.shape == (2, 3, 1)
    assert [file.name for file in other.parent.iterdir()] == ["other.sqlite"]


def test_hard_link_without_its_first_name_is_refused_until_it_is_alone(tmp_path):
    campaign = campaign_of(tmp_path)
    os.link(campaign.path, tmp_path / "b.sqlite")
    campaign.path.rename(tmp_path / "c.sqlite")
    with pytest.raises(ValueError, match=r"several names \(hard links\).*copy it to a file"):
        Campaign.open(tmp_path / "b.sqlite")
    (tmp_path / "c.sqlite").unlink()
    assert Campaign.open(tmp_path / "b.sqlite").run(executor="here").done == 6


def test_second_driver_is_refused_although_somebody_removed_the_lock(tmp_path):
    campaign = campaign_of(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as driver:
        began = Path(f"/proc/{driver.pid}/stat").read_text().rpartition(")")[2].split()[19]
        process = {"pid": driver.pid, "host": gethostname(), "since": "now", "began": began}
        rewrite(campaign.path, driver=process)
        with pytest.raises(ValueError, match=f"is being run by process {driver.pid}"):
            campaign.run(**HERE)
        rewrite(campaign.path, driver=process | {"began": "0"})  # another had the number before
        assert not campaign.status().driver
        rewrite(campaign.path, driver=process)
        driver.kill()
        os.waitid(os.P_PID, driver.pid, os.WEXITED | os.WNOWAIT)  # it remains as a zombie
        assert campaign.run(**HERE).done == 6


def test_store_that_is_moved_or_removed_while_it_is_run_is_said(tmp_path):
    campaign = campaign_of(tmp_path)
    elsewhere = tmp_path / "elsewhere.sqlite"

    def move(progress):
        campaign.path.rename(elsewhere)

    with pytest.raises(OSError, match=r"moved or removed while it was run.*put it back"):
        campaign.run(**HERE, report=move)
    elsewhere.rename(campaign.path)
    assert campaign.status().done == 1
    assert campaign.run(**HERE).done == 6


def test_second_driver_is_refused_although_the_store_was_moved_from_the_first(tmp_path):
    campaign = campaign_of(tmp_path)
    elsewhere = tmp_path / "elsewhere.sqlite"

    def hold_too(progress):
        with pytest.raises(Timeout), hold_file(campaign.path):
            pass

    assert campaign.run(**HERE, budget=2, report=hold_too).waiting > 0
    with hold_file(campaign.path):  # as the first process does, without its connection
        before = campaign.path.read_bytes()
        campaign.path.rename(elsewhere)
        with pytest.raises(ValueError, match="is being run by another process"):
            Campaign.open(elsewhere).run(**HERE)
        assert elsewhere.read_bytes() == before
    assert Campaign.open(elsewhere).run(**HERE).done == 6


def test_link_that_leads_to_itself_is_no_place_for_a_store(tmp_path):
    (tmp_path / "runs.sqlite").symlink_to(tmp_path / "runs.sqlite")
    with pytest.raises(ValueError, match="no place for a store"):
        campaign_of(tmp_path)


def test_store_is_the_same_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    campaign_of(tmp_path)
    campaign = Campaign.open("runs.sqlite")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert campaign.run(executor="here").done == 6


# Nothing executed to read


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A store with some runs whose simulator, a module in this folder, leaves a mark."""
    campaign = campaign_of(tmp_path)
    campaign.run(executor="here", budget=4)
    mark = tmp_path / "mark"
    (tmp_path / "stranger.py").write_text(
        f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
        "from campaign_models import *\nmade = lambda: made_by_a_function()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rewrite(campaign.path, recipe='"stranger:made"')
    yield campaign.path, mark
    sys.modules.pop("stranger", None)


def test_reading_a_store_executes_nothing_that_it_names(foreign, tmp_path):
    path, mark = foreign
    campaign = Campaign.open(path)
    assert campaign.status().done == 4
    assert campaign.results(partial=True).y.shape == (1, 3, 1)
    assert campaign.results(partial=True, on_failure="reweight").y.shape == (1, 3, 1)
    assert campaign.design.shape == (2, 3)
    assert campaign.failures() == ""
    assert campaign.check() == []
    assert export_design(campaign, tmp_path / "design.npz") == 2
    assert export_design(campaign, tmp_path / "design.csv") == 2
    for words in (["status", path, "--failures", 5], ["results", path, tmp_path / "r.csv"]):
        ran = command(*words, *(["--partial"] if words[0] == "results" else []))
        assert ran.exit_code == 0, ran.output
    assert not mark.exists()


def test_running_a_strangers_store_is_refused_by_name_until_it_is_trusted(foreign, tmp_path):
    path, mark = foreign
    for call in ("run", "original", "simulator"):
        campaign = Campaign.open(path)
        with pytest.raises(ValueError, match=r"not made on this account.*imports stranger:made"):
            campaign.run(executor="here") if call == "run" else getattr(campaign, call)
    ran = command("run", path)
    assert ran.exit_code == 1
    assert "--trust" in ran.output
    export_design(campaign, tmp_path / "design.npz")
    with pytest.raises(ValueError, match="imports stranger:made"):
        work(tmp_path / "design.npz", tmp_path / "out.csv")
    assert not mark.exists()
    assert work(tmp_path / "design.npz", tmp_path / "out.csv", trust=True) == 2
    assert campaign.run(executor="here", trust=True).done == 6
    assert Campaign.open(path).run(executor="here").done == 6  # from then on it is one's own


def test_a_stranger_cannot_hide_what_runs_behind_what_a_terminal_obeys(tmp_path):
    campaign = campaign_of(tmp_path)
    rewrite(campaign.path, recipe=json.dumps("evil:made\x1b[1K\rmodel:made"))
    with pytest.raises(ValueError, match=r"imports evil:made\\x1b\[1K\\rmodel:made"):
        Campaign.open(campaign.path).check_trust()


def beyond_memory():
    """An array of 10^15 numbers, of which none is there."""
    file = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    np.lib.format.write_array_header_1_0(file, about)
    return base64.b64encode(file.getvalue()).decode()


EVIL = {
    "a function": {"function": "os:abort"},
    "a type": {"type": "subprocess:Popen", "fields": {"args": "true"}},
    "a command": {
        "type": "owlfi.campaign.external:Command",
        "fields": {"arguments": {"tuple": ["touch", "mark"]}, "time_limit": None},
    },
    "what a module imports": {"type": "owlfi.weights.quadrature:jax.numpy", "fields": {}},
    "a function of scipy": {"scipy": "bootstrap", "args": {"list": [{"list": []}, {"dict": []}]}},
    "an array beyond memory": {"array": beyond_memory(), "jax": False},
    "no kind": {"dance": 3},
    "deep": "deep",
}


@pytest.mark.parametrize("node", EVIL.values(), ids=EVIL)
def test_designs_with_code_in_them_are_refused(tmp_path, node):
    campaign = campaign_of(tmp_path)
    text = json.dumps({"tuple": [node, node]})
    text = '{"list": [' * 5000 + "]}" * 5000 if node == "deep" else text
    rewrite(campaign.path, design=text)
    for read in (Campaign.results, Campaign.failures, lambda campaign: campaign.design):
        with pytest.raises(ValueError, match=r"code that a file names|no text of|no distribution"):
            read(Campaign.open(campaign.path))


@pytest.mark.parametrize(
    "node",
    [
        {"type": 5},
        {"type": "owlfi.campaign.external:Command", "fields": {}},
        {"type": "owlfi.campaign:Command", "fields": {"arguments": {"tuple": ["touch", "mark"]}}},
        {"function": "", "type": "evil:Model", "fields": {}},
    ],
)
def test_code_by_other_names_is_refused_also_where_the_store_is_trusted(tmp_path, node):
    campaign = campaign_of(tmp_path)
    rewrite(campaign.path, recipe=json.dumps(node))
    with pytest.raises(ValueError, match=r"no text of|another name|has other fields|import path"):
        Campaign.open(campaign.path, trust=True).run(**HERE)


def test_measures_of_a_file_have_arrays(tmp_path):
    campaign = campaign_of(tmp_path)
    text = json.loads(encode((Normal(), ("a",), None)))
    text["tuple"][0]["fields"]["mean"] = 10**30
    rewrite(campaign.path, outline=json.dumps(text))
    with pytest.raises(ValueError, match="is no array"):
        export_design(Campaign.open(campaign.path), tmp_path / "design.csv")


ODD = {
    "design": [3, encode((1, 2)), encode((np.ones((2, 1)), Normal())), encode([])],
    "outline": [{}, encode(3), encode((1, 2, 3))],
    "rounds": [1],
    "checks": ["x"],
    "driver": ["me"],
    "sources": [[1], {"campaign_models": 1}],
    "recipe": [None, 3, "no JSON"],
    "signature": [3],
}


@pytest.mark.parametrize("fact", ODD)
def test_facts_of_other_types_are_refused_in_words(tmp_path, fact):
    """Whoever writes them has checksums, too."""
    campaign = campaign_of(tmp_path)
    calls = [Campaign.status, Campaign.failures, Campaign.results, partial(Campaign.run, **HERE)]
    for value in ODD[fact]:
        rewrite(campaign.path, **{fact: value})
        refused = 0
        for call in calls:
            try:
                call(Campaign.open(campaign.path))
            except (ValueError, StoreError):
                refused += 1
        assert refused, value


@pytest.mark.parametrize("value", [3, [(1, 2)], [3], (1, Normal())])
def test_rounds_of_other_types_are_refused_in_words(value):
    with pytest.raises(ValueError, match="no rounds of proposals"):
        decode_rounds(encode(value))


def test_driver_that_cannot_be_a_process_is_none(tmp_path):
    campaign = campaign_of(tmp_path)
    for driver in ({}, {"pid": "x"}, {"pid": -1, "host": gethostname()}, {"pid": 2**70}):
        rewrite(campaign.path, driver={"host": gethostname()} | driver)
        assert campaign.status().driver == ""


def test_own_types_are_read_where_the_store_is_ones_own(tmp_path):
    value = (Normal(0, 2), np.arange(3.0))
    assert decode(encode(value))[0].sd == 2.0
    with pytest.raises(ValueError, match="is code that a file names"):
        decode(encode(models.scaled))
    assert decode(encode(models.scaled), imports=True) is models.scaled


def test_what_weights_were_tuned_to_is_written_down():
    numbers = (jnp.array(float(i)) for i in range(7))
    fit = KernelFit(jnp.array(0), jnp.array(1), jnp.ones(2), *numbers)
    again = decode(encode((fit, 1.0)))[0]
    assert type(again) is KernelFit
    pairs = zip(jax.tree.leaves(again), jax.tree.leaves(fit), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    with pytest.raises(ValueError, match="no text of"):
        decode(encode(fit).replace("nugget", "nougat"))


@pytest.mark.slow
def test_this_folder_hides_no_library(tmp_path):
    """A module of the folder is found, but none that is called like another."""
    campaign_of(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('mine')")
    (tmp_path / "numpy.py").write_text("raise SystemExit('mine')")
    owlfi = Path(sys.executable).with_name("owlfi")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for words in (["run", "runs.sqlite", "--workers", "1"], ["status", "runs.sqlite"]):
        ran = subprocess.run(
            [owlfi, "campaign", *words], cwd=tmp_path, env=environment, capture_output=True
        )
        assert ran.returncode == 0, ran.stderr


# Damage


def flip(path, old, new):
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))


def test_damaged_results_are_noticed_and_made_again(tmp_path):
    campaign = campaign_of(tmp_path, thetas=(3.5, 7.25))
    campaign.run(executor="here")
    expected = np.asarray(campaign.results().y)
    y = np.float64(7.25 * 0.5).tobytes()
    flip(campaign.path, y, y[:3] + b"\x01" + y[4:])
    campaign = Campaign.open(campaign.path)
    assert campaign.status().done == 6
    with pytest.raises(StoreError, match=r"is damaged: the run .* campaign check"):
        campaign.results()
    ran = command("check", campaign.path)
    assert (ran.exit_code, ran.output) == (1, "1 runs are not what was written\n")
    assert command("check", campaign.path, "--mend").exit_code == 0
    assert campaign.run(executor="here").done == 6
    assert np.asarray(campaign.results().y).tobytes() == expected.tobytes()
    assert "is as it was written" in command("check", campaign.path).output


@pytest.mark.parametrize("state", [b"exception", b"not finite"])
def test_damage_beside_y_is_noticed(tmp_path, state):
    campaign = campaign_of(tmp_path, thetas=(3.5,))
    campaign.run(executor="here", check=False)
    with closing(sqlite3.connect(campaign.path)) as connection:
        connection.execute("UPDATE runs SET state = ? WHERE place = 1", [state.decode()])
        connection.commit()
    with pytest.raises(StoreError, match="is damaged: the run"):
        Campaign.open(campaign.path).results()


@pytest.mark.parametrize("change", ["place = 10000", "place = 'x'", "place = NULL, theta = x'00'"])
def test_damaged_failures_are_said_to_be(tmp_path, change):
    campaign = campaign_of(tmp_path)
    campaign.run(**HERE)
    with closing(sqlite3.connect(campaign.path)) as connection:
        connection.execute(f"UPDATE runs SET state = 'crash', {change} WHERE place = 0")
        connection.commit()
    with pytest.raises(StoreError, match="is damaged: what it says of failures"):
        campaign.failures()


@pytest.mark.parametrize("option", [{"check": pd.NA}, {"check": "no"}, {"report": 3}])
def test_options_of_other_types_are_named(tmp_path, option):
    with unchecked(), pytest.raises(ValueError, match=f"{next(iter(option))} must be"):
        campaign_of(tmp_path).run(executor="here", **option)


def test_executor_that_cannot_be_compared_is_named(tmp_path):
    with pytest.raises(ValueError, match="executor must be"):
        campaign_of(tmp_path).run(executor=pd.NA)


def test_more_runs_than_a_campaign_can_keep_are_refused(tmp_path):
    many = equal_weights(SquaredExponential(1.0), Normal(), np.linspace(-1, 1, 5000))
    simulator = Simulator(models.scaled, Normal(), ["a"], on_host=True)
    with pytest.raises(ValueError, match="25,000,000 runs, where a campaign has at most"):
        Campaign.create(tmp_path / "runs.sqlite", simulator, np.linspace(1, 2, 5000), many)


def test_damaged_design_is_noticed(tmp_path):
    campaign = campaign_of(tmp_path)
    with closing(sqlite3.connect(campaign.path)) as connection:
        connection.execute("UPDATE facts SET value = replace(value, 'A', 'B') WHERE name='design'")
        connection.commit()
    with pytest.raises(StoreError, match="damaged: what it says of design"):
        Campaign.open(campaign.path).results()
    assert "what it says of design" in command("check", campaign.path).output


def test_any_flipped_byte_gives_the_same_results_or_an_error(tmp_path):
    campaign = campaign_of(tmp_path, thetas=np.arange(1.0, 30.0))
    campaign.run(executor="here", check=False)
    expected = np.asarray(campaign.results().y).tobytes()
    data = campaign.path.read_bytes()
    draw, noticed = np.random.default_rng(0), 0
    for place in draw.integers(0, len(data), 200):  # most bytes of a small store are unused
        broken = bytearray(data)
        broken[place] ^= 1 << draw.integers(8)
        campaign.path.write_bytes(bytes(broken))
        try:
            assert np.asarray(Campaign.open(campaign.path).results().y).tobytes() == expected
        except (ValueError, StoreError):
            noticed += 1
    assert noticed > 10


# Readable


@contextmanager
def folder_without_writing(folder):
    """Where this process may read, but not write; root gives up its rights for it."""
    for parent in takewhile(lambda parent: parent != Path(gettempdir()), [folder, *folder.parents]):
        parent.chmod(parent.stat().st_mode | 0o055)
    folder.chmod(0o555)
    root = os.getuid() == 0
    if root:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)
        folder.chmod(0o755)


@pytest.mark.parametrize("log", [False, True], ids=["tidy", "with a log"])
def test_store_in_a_folder_that_cannot_be_written_to_is_read(tmp_path, log):
    campaign = campaign_of(tmp_path)
    campaign.run(executor="here")
    with closing(sqlite3.connect(campaign.path)) as reader:
        if log:  # a reader keeps what is written afterwards in the log
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM runs").fetchone()
            campaign.simulator([9.0], [4.0])
        shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "copy" / "runs.sqlite-shm").unlink(missing_ok=True)
    with folder_without_writing(tmp_path / "copy"):
        copy = Campaign.open(tmp_path / "copy" / "runs.sqlite")
        assert copy.status().calls == (8 if log else 7)
        assert copy.results().y.shape == (2, 3, 1)
        with pytest.raises(StoreError, match=r"cannot be written to .* copy it to a folder"):
            copy.run(executor="here")


def test_full_disk_is_one_message_and_the_campaign_goes_on(tmp_path, monkeypatch):
    campaign = campaign_of(tmp_path, thetas=np.arange(1.0, 9.0))
    record = Store.record

    def fill(store, runs, **facts):
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        most = pages if campaign.status().done else 2**30
        store.connection.execute(f"PRAGMA max_page_count = {most}")
        record(store, [(run, end._replace(error=9999 * "x"), n) for run, end, n in runs], **facts)

    monkeypatch.setattr(Store, "record", fill)
    with pytest.raises(StoreError, match=r"runs.sqlite: database or disk is full; make room"):
        campaign.run(executor="here", check=False)
    assert 0 < campaign.status().done < 24
    monkeypatch.undo()
    assert campaign.run(executor="here", check=False).done == 24


def test_sqlite_errors_are_one_message_on_the_command_line(tmp_path, monkeypatch):
    campaign = campaign_of(tmp_path)

    def fail(store):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Store, "counts", fail)
    ran = command("status", campaign.path)
    assert ran.exit_code == 1
    assert "runs.sqlite: disk I/O error; what had ended before is kept" in ran.output


def test_run_of_the_store_may_have_seconds_that_are_no_number(tmp_path):
    from owlfi.campaign.outcome import Outcome

    campaign = campaign_of(tmp_path)
    theta, u = np.ones(1).tobytes(), np.ones(1).tobytes()
    with campaign.writing() as store:
        run = Run(digest(theta, u), None, theta, u)
        store.record([(run, Outcome("done", u, float("nan")), 1)])
        assert store.outputs() == {run.digest: u}
