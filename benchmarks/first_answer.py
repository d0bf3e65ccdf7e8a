"""How long one waits for the first answer: fresh processes, nothing compiled unless said."""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from benchmarks.report import Bar, Row

_README = Path(__file__).parents[1] / "README.md"
_EXAMPLES = re.findall(r"```python\n(.*?)```", _README.read_text(encoding="utf-8"), re.DOTALL)
_ROUNDS = 5
_FEW_ROUNDS = 3
_THEN = "984c6da"  # the commit that today is compared with
_SIZES = 200
_EMPTY_PROGRAM = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"
_HELP = "from owlfi.cli.main import app; app(['--help'])"
_COUNT = """
import jax
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **more: event.endswith("backend_compile_duration")
    and compiled.append(event)
)
"""
_TELL = "\nprint('compilations', len(compiled))\n"
_FITS = """
import jax, numpy as np, owlfi

model, rule = owlfi.models.g_and_k(), owlfi.OptimallyWeighted(m=32)
u = np.asarray(owlfi.iid(jax.random.key(0), 5000, model.measure))
x = np.asarray(model(model.theta, u))


def fit(n):
    before = len(compiled)
    owlfi.minimum_distance(jax.random.key(1), owlfi.Problem(model, x[:n]), rule)
    return len(compiled) - before


def resident():  # megabytes
    pages = open("/proc/self/statm").read().split()[1]
    return int(pages) * 4096 / 2**20

"""


def _run(code: str, cache: Path, source: Path | None = None) -> tuple[float, str]:
    """Seconds of a fresh process, and what it printed.

    source: of another owlfi than the one that is installed.
    """
    kept = {name: text for name, text in os.environ.items() if not name.startswith("JAX_")}
    if source is not None:
        kept["PYTHONPATH"] = str(source)
    start = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=kept | {"XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - start, ran.stdout


def _race(*codes: str) -> list[float]:
    """The best time of each, taken in turns."""
    with tempfile.TemporaryDirectory() as cache:
        rounds = [[_run(code, Path(cache))[0] for code in codes] for _ in range(_ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def start_up() -> list[Row]:
    plain, ours = _race("import jax", "import owlfi, jax")
    empty, helped = _race(_EMPTY_PROGRAM, _HELP)
    names = "import owlfi; [getattr(owlfi, name) for name in owlfi.__all__ if name != 'plots']"
    (everything,) = _race(names)
    half = Bar(0.5, "s more", at_least=False)
    return [
        Row("import", "import jax", plain, "s"),
        Row("import", "import owlfi, jax", ours - plain, "s more", bar=half),
        Row("import", "every name of owlfi but the plots", everything - plain, "s more"),
        Row("help", "an empty typer program", empty, "s"),
        Row("help", "owlfi --help", helped, "s", bar=Bar(0.6, "s", at_least=False)),
    ]


def examples() -> list[Row]:
    """Each with nothing compiled, then once more; the second with a bar on what it compiles."""
    first, second = ("the README's first example", "the README's second example")
    bar = Bar(61, "programs", at_least=False)
    return [*_time_example(first, _EXAMPLES[0], None), *_time_example(second, _EXAMPLES[1], bar)]


def _time_example(what: str, code: str, bar: Bar | None) -> list[Row]:
    with tempfile.TemporaryDirectory() as cache:
        cold, printed = _run(_COUNT + code + _TELL, Path(cache))
        warm, _ = _run(_COUNT + code + _TELL, Path(cache))
    programs = int(printed.split()[-1])
    return [
        Row(what, "owlfi, nothing compiled", cold, "s"),
        Row(what, "owlfi, compiled before", warm, "s", warm / cold, "this / nothing compiled"),
        Row(what, "owlfi compiles", programs, "programs", bar=bar),
    ]


def since() -> list[Row]:
    """The examples of the README at an earlier commit, and the demonstration, then and now."""
    with tempfile.TemporaryDirectory() as folder:
        old = _check_out(Path(folder))
        readme = (old / "README.md").read_text(encoding="utf-8")
        first, second = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[:2]
        demos = [
            f"from owlfi.{module} import app; app(['demo', '--out', {folder!r}])"
            for module in ("cli", "cli.main")  # then and now
        ]
        return [
            *_compare("the first example of that time", first, first, old, 0.4, None),
            *_compare("the second example of that time", second, second, old, 0.33, 0.15),
            *_compare("owlfi demo", *demos, old, 0.5, None),
        ]


def _check_out(folder: Path) -> Path:
    """The files of the earlier commit."""
    root, archive = Path(__file__).parents[1], folder / "then.tar"
    subprocess.run(["git", "archive", "-o", archive, _THEN], cwd=root, check=True)
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "then", filter="data")
    return folder / "then"


def _compare(
    what: str, before_code: str, code: str, old: Path, cold_bar: float, warm_bar: float | None
) -> list[Row]:
    """The least of some rounds in turns, as shares of the earlier time."""
    then, cold, warm = [], [], []
    for _ in range(_FEW_ROUNDS):
        with tempfile.TemporaryDirectory() as cache:
            then.append(_run(before_code, Path(cache) / "then", old / "src")[0])
            cold.append(_run(code, Path(cache) / "now")[0])
            warm.append(_run(code, Path(cache) / "now")[0])
    before = min(then)
    bars = [None if bar is None else Bar(bar, "of that time", at_least=False)
            for bar in (cold_bar, warm_bar)]  # fmt: skip
    return [
        Row(what, f"owlfi {_THEN}", before, "s"),
        Row(what, "owlfi, nothing compiled", min(cold) / before, "of that time", bar=bars[0]),
        Row(what, "owlfi, compiled before", min(warm) / before, "of that time", bar=bars[1]),
    ]


def sizes() -> list[Row]:
    """Fits to data of many sizes in one process."""
    script = f"""{_COUNT}{_FITS}
fit(300)
print(fit(310))
chosen = np.unique(np.geomspace(50, 5000, {_SIZES}).astype(int))
sets = sum(fit(n) > 0 for n in chosen)
before = resident()
for n in chosen + 1:
    fit(min(n, 5000))
print(sets, resident() - before)
"""
    with tempfile.TemporaryDirectory() as cache:
        again, sets, growth = map(float, _run(script, Path(cache))[1].split())
    what = f"fits to data of {_SIZES} sizes from 50 to 5,000"
    return [
        Row("a fit with 310 rows after one with 300", "owlfi compiles", again, "programs",
            bar=Bar(1, "programs", at_least=False)),
        Row(what, "owlfi compiles", sets, "times", bar=Bar(13, "times", at_least=False)),
        Row(f"{what}, once more", "owlfi grows by", growth, "MB",
            bar=Bar(100, "MB", at_least=False)),
    ]  # fmt: skip


BENCHMARKS = {"start_up": start_up, "examples": examples, "since": since, "sizes": sizes}
