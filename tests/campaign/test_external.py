"""Programs of any language as simulators."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from owlfi import Normal, Prior, Seed, Simulator, SquaredExponential, Uniform, equal_weights
from owlfi.campaign import Campaign, Command, programs
from owlfi.campaign.programs import CrashError, TimeLimitError
from owlfi.weights.quadrature import unweighted

THETA = np.array([1.5, 1 / 3])
U = np.array([[2.0], [-1e-20]])
EXAMPLE = Path(__file__).parents[2] / "examples" / "program"
NOISE = Normal()


def script(tmp_path, text):
    file = tmp_path / "program.py"
    file.write_text(text)
    return [sys.executable, str(file)]


def test_numbers_are_arguments_with_all_digits_and_come_from_standard_output():
    y = Command("echo {theta} {u}")(THETA, U)
    assert_array_equal(y, [[1.5, 1 / 3, 2.0], [1.5, 1 / 3, -1e-20]])
    assert_array_equal(Command("echo --all={theta},{u}".replace("--all=", ""))(THETA, U), y)


def test_numbers_inside_an_argument_have_commas(tmp_path):
    program = script(tmp_path, "import sys; print(sys.argv[1].removeprefix('theta='), sys.argv[2])")
    assert_array_equal(Command([*program, "theta={theta}", "{u}"])(THETA, U)[0], [1.5, 1 / 3, 2.0])


def test_programs_that_only_take_a_seed(tmp_path):
    program = script(
        tmp_path,
        "import random, sys\nrandom.seed(int(sys.argv[2]))\n"
        "print(random.gauss(float(sys.argv[1]), 1))",
    )
    command = Command([*program, "{theta}", "{seed}"])
    simulator = Simulator.from_random(command, ["a"], prior=Prior(a=Uniform(0, 1)))
    assert isinstance(simulator.measure, Seed)
    u = simulator.measure.from_uniform(np.array([[0.25], [0.75]]))
    y = simulator([0.5], u)
    assert_array_equal(y, simulator([0.5], u))
    assert_allclose(simulator([0.75], u), y + 0.25)  # common seeds
    campaign = Campaign.create(tmp_path / "runs.sqlite", simulator, [[0.5], [0.75]], unweighted(u))
    campaign.run(executor="here")
    assert_allclose(campaign.results().y[0], y)
    with pytest.raises(ValueError, match=r"takes a \{seed\}, but u is .* owlfi.Seed\(\)"):
        command(THETA[:1], np.array([[0.3]]))


@pytest.mark.parametrize("out", ["json", "npy", "txt"])
def test_files_go_in_and_come_out(tmp_path, out):
    write = {
        "json": "json.dump([theta, u], open(sys.argv[3], 'w'))",
        "npy": "import numpy; numpy.save(sys.argv[3], [theta, u])",
        "txt": "print(theta, u, file=open(sys.argv[3], 'w'))",
    }[out]
    program = script(
        tmp_path,
        "import json, sys\nimport numpy as np\n"
        "given = json.load(open(sys.argv[1])); theta, u = given['theta'][1], given['u'][0]\n"
        "assert list(np.load(sys.argv[2])) == given['theta'] + given['u']\n"
        f"print('ignored'); {write}",
    )
    command = Command([*program, "{in.json}", "{in.npy}", f"{{out.{out}}}"])
    assert_array_equal(command(THETA, U), [[1 / 3, 2.0], [1 / 3, -1e-20]])


def test_each_run_has_a_directory_of_its_own_that_is_removed(tmp_path):
    program = script(
        tmp_path,
        "import os, sys; assert not os.path.exists('mark'); open('mark', 'w')\n"
        f"print(os.getcwd(), file=open({str(tmp_path / 'where')!r}, 'a')); print(1)",
    )
    Command([*program, "{theta}", "{u}"])(THETA, U)
    folders = (tmp_path / "where").read_text().split()
    assert len(set(folders)) == 2
    assert not any(map(os.path.exists, folders))


def test_programs_are_found_from_where_the_command_was_made(tmp_path, monkeypatch):
    script(tmp_path, "print(7)")
    monkeypatch.chdir(tmp_path)
    command = Command([sys.executable, "program.py", "{theta}", "{u}"])
    monkeypatch.chdir("/")
    assert_array_equal(command(THETA, U), [[7.0], [7.0]])
    assert str(tmp_path / "program.py") in command.files


def test_standard_error_of_a_failure_is_kept(tmp_path):
    program = script(tmp_path, "import sys; print('diverged at step 3', file=sys.stderr); exit(4)")
    with pytest.raises(
        RuntimeError, match=r"exit status 4; read its standard error: diverged at step 3"
    ):
        Command([*program, "{theta}", "{u}"])(THETA, U)


def test_time_limit_kills_the_program_and_its_children(tmp_path):
    mark = tmp_path / "mark"
    command = Command(
        ["sh", "-c", f"(sleep 1; touch {mark}) & wait", "{theta}", "{u}"], time_limit=0.2
    )
    with pytest.raises(TimeLimitError, match=r"longer than 0.2 s"):
        command(THETA, U)
    time.sleep(1.2)
    assert not mark.exists()


def test_killed_program_is_a_crash():
    with pytest.raises(CrashError, match="killed by signal 9"):
        Command(["sh", "-c", "kill -9 $$", "{theta}", "{u}"])(THETA, U)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "must be given theta and u"),
        ("run {theta}", "must be given theta and u"),
        ("run {theta} {noise} {u}", r"the command has \{noise\}; the places are \{theta\}"),
        ("run {theta} {u} {out.npy} {out.txt}", "must write one file"),
    ],
)
def test_wrong_commands_are_refused(template, message):
    with pytest.raises(ValueError, match=message):
        Command(template)
    with pytest.raises(ValueError, match="time_limit must be positive"):
        Command("run {theta} {u}", time_limit=0)


def test_program_that_gives_nothing_is_told_from_one_that_gives_y(tmp_path):
    with pytest.raises(RuntimeError, match="the program printed nothing, where the numbers of y"):
        Command(["true", "{theta}", "{u}"])(THETA, U)
    with pytest.raises(RuntimeError, match=r"did not write the file \{out.txt\}"):
        Command("echo {theta} {u} {out.txt}")(THETA, U)
    for other in ("mkfifo out.txt", "ln -s /dev/zero out.txt", "mkdir out.txt"):  # would never end
        with pytest.raises(RuntimeError, match=r"did not write the file \{out.txt\}"):
            Command(["sh", "-c", other, "{theta}", "{u}", "{out.txt}"])(THETA, U)
    with pytest.raises(RuntimeError, match=r"wrote nothing to \{out.txt\}"):
        Command(["sh", "-c", ": > out.txt", "{theta}", "{u}", "{out.txt}"])(THETA, U)
    with pytest.raises(ValueError, match="time_limit must hold real numbers only"):
        Command("echo {theta} {u}", time_limit="60")


def test_program_that_is_not_there_is_named_before_anything_runs(tmp_path):
    q = equal_weights(SquaredExponential(1.0), NOISE, [0.5])

    def campaign(program):
        simulator = Simulator(Command([str(program), "{theta}", "{u}"]), NOISE, ["a"], on_host=True)
        return Campaign.create(tmp_path / "runs.sqlite", simulator, [0.0], q)

    with pytest.raises(ValueError, match=r"there is no program 'no_such_program' \(in .*full path"):
        campaign("no_such_program")
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho 1\n")
    with pytest.raises(ValueError, match=r"program is no program that can be started; chmod \+x"):
        campaign(program)
    program.chmod(0o755)
    made = campaign(program)
    program.chmod(0o644)
    with pytest.raises(ValueError, match=r"chmod \+x"):
        made.run(executor="here")
    assert made.status().waiting == 1


def test_campaign_of_commands_keeps_time_limits_on_any_executor_and_tries_again(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    command = Command(["sh", "-c", 'sleep "$1"; echo "$2"', "sh", "{theta}", "{u}"], time_limit=1.0)
    simulator = Simulator(command, NOISE, ["pause"], on_host=True)
    q = equal_weights(SquaredExponential(1.0), NOISE, [0.5])
    campaign = Campaign.create(tmp_path / "runs.sqlite", simulator, [0.0, 30.0], q)
    with ThreadPoolExecutor(2) as executor:
        status = campaign.run(executor=executor, retries=1, check=False)
    assert status.failures == {"time-out": 1}
    assert "time-out (2 attempts) at theta = [30.], u = [0.5]: longer than" in campaign.failures()
    assert_array_equal(campaign.results().y.ravel(), [0.5])


def test_changed_program_is_noticed(tmp_path):
    program = script(tmp_path, "print(1)")
    simulator = Simulator(Command([*program, "{theta}", "{u}"]), NOISE, ["a"], on_host=True)
    q = equal_weights(SquaredExponential(1.0), NOISE, [0.5, 1.0])
    campaign = Campaign.create(tmp_path / "runs.sqlite", simulator, [0.0], q)
    campaign.run(executor="here", budget=1)
    script(tmp_path, "print(2)")
    with pytest.raises(ValueError, match=r"program.py is another file now"):
        campaign.run(executor="here")


def test_example_in_c_compiles_and_runs(tmp_path):
    for file in EXAMPLE.iterdir():
        shutil.copy(file, tmp_path)
    compiler = ["cc", "-O2", "-o", "projectile", "projectile.c", "-lm"]
    subprocess.run(compiler, cwd=tmp_path, check=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert len(ran.stdout.splitlines()) == 5, ran.stderr
    assert "lands at" in ran.stdout
    runs = Campaign.open(tmp_path / "projectile.sqlite").results()
    speed, angle = np.asarray(runs.thetas[0])
    vertical = speed * np.sin(np.radians(angle))
    assert_allclose(runs.y[0, 0, 1], 2 * vertical / 9.81, rtol=0.2)  # without drag


# Nothing of a program remains


def processes_of(mark):
    """The processes whose command has a word."""
    ran = subprocess.run(["pgrep", "-f", mark], capture_output=True, text=True)
    return ran.stdout.split()


DAEMONS = {
    "in its session": "(exec sleep 61.5) & echo 1",
    "in another": "setsid sleep 61.5 & echo 1",
    "without its environment": "env -i setsid sleep 61.5 & echo 1",
    "and goes on itself": "setsid sleep 61.5 & sleep 61.5",
}


@pytest.mark.parametrize("text", DAEMONS.values(), ids=DAEMONS)
def test_daemons_that_keep_the_output_open_are_not_waited_for(text):
    command = Command(["sh", "-c", text, "{theta}", "{u}"], time_limit=1.0)
    start = time.perf_counter()
    if text.startswith("setsid sleep 61.5 & sleep"):
        with pytest.raises(TimeLimitError, match=r"longer than 1\.0 s"):
            command(THETA, U[:1])
    else:
        assert command(THETA, U[:1]) == 1.0
    assert time.perf_counter() - start < 10
    assert processes_of("sleep 61.5") == []


def test_output_has_a_limit_and_errors_are_cut():
    flood = Command(["sh", "-c", "yes 1", "{theta}", "{u}"])
    with pytest.raises(RuntimeError, match="the program printed more than 67,108,864 bytes"):
        flood(THETA, U)
    file = ["sh", "-c", "truncate -s 65M out.txt", "{theta}", "{u}", "{out.txt}"]
    with pytest.raises(RuntimeError, match=r"wrote more than 67,108,864 bytes to \{out.txt\}"):
        Command(file)(THETA, U)
    noisy = Command(["sh", "-c", "yes | head -c 3000000 >&2; exit 3", "{theta}", "{u}"])
    with pytest.raises(RuntimeError, match="exit status 3") as error:
        noisy(THETA, U)
    assert len(str(error.value)) < 70_000


@pytest.mark.slow
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    """Its program, and its folder."""
    code = (
        "import sys, numpy as np; from owlfi.campaign import Command\n"
        "Command(['sh', '-c', 'setsid sleep 62.5 & sleep 62.5', '{theta}', '{u}'])"
        "(np.ones(1), np.ones((1, 1)))"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.Popen([sys.executable, "-c", code], env=environment)
    while len(processes_of("^sleep 62.5")) < 2:
        assert killed.poll() is None
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    assert len(processes_of("^sleep 62.5")) == 2
    again = code.replace("setsid sleep 62.5 & sleep 62.5", "echo 1")
    subprocess.run([sys.executable, "-c", again], env=environment, check=True)
    assert processes_of("^sleep 62.5") == []
    assert list(tmp_path.iterdir()) == []


def test_folders_of_others_with_such_names_stay(tmp_path, monkeypatch):
    """Those without a lock, with files of their own, and links, which may lead anywhere."""
    elsewhere, notes = tmp_path / "elsewhere", tmp_path / "owlfi-run-notes"
    for folder in (elsewhere, notes):
        folder.mkdir()
        (folder / "results.csv").write_text("1")
    (elsewhere / "lock").write_text("a file of somebody")
    (tmp_path / "owlfi-run-link").symlink_to(elsewhere)
    begun = tmp_path / "owlfi-run-begun"
    begun.mkdir()
    for folder in (elsewhere, notes, begun):
        os.utime(folder, (0, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own, lock = programs._process_folder.__wrapped__()
    lock.release()
    assert own.parent == tmp_path
    assert (notes / "results.csv").exists()
    assert (elsewhere / "lock").read_text() == "a file of somebody"
    assert not begun.exists()  # of a process that was killed before it had locked it
