import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from owlfi._tools import jax_settings

SUM = """
import owlfi, jax
hits = []
jax.monitoring.register_event_listener(lambda event, **more: hits.append(event))
assert jax.jit(lambda x: x.sum())(jax.numpy.ones(5)).dtype == float
print(sum(event.endswith("cache_hits") for event in hits))
"""


def run(script, home, **settings):
    kept = {name: text for name, text in os.environ.items() if not name.startswith("JAX_")}
    folders = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "caches")}
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env=kept | folders | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not ran.stderr
    return ran.stdout.strip()


def test_programs_are_kept_between_processes(tmp_path):
    everything = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    assert run(SUM, tmp_path, **everything) == "0"
    assert int(run(SUM, tmp_path, **everything)) > 0
    assert (tmp_path / "caches" / "owlfi" / "compiled").stat().st_mode & 0o077 == 0


class Config:
    """That of JAX."""

    jax_compilation_cache_dir = None
    jax_enable_compilation_cache = True

    def update(self, name, value):
        setattr(self, name, value)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "owlfi" / "compiled"


def set_up(**settings):
    config = Config()
    vars(config).update(settings)
    jax_settings._set_up(SimpleNamespace(config=config))
    assert config.jax_enable_x64
    return config


def test_the_folder_of_the_user_is_bounded(folder):
    config = set_up()
    assert config.jax_compilation_cache_dir == str(folder)
    assert 0 < config.jax_compilation_cache_max_size <= 2**30


@pytest.mark.parametrize(
    "settings", [{"jax_compilation_cache_dir": "own"}, {"jax_enable_compilation_cache": False}]
)
def test_settings_of_the_user_stay(settings, folder):
    assert vars(set_up(**settings)) == {**settings, "jax_enable_x64": True}
    assert not folder.exists()


def test_nothing_is_kept_where_nothing_can_be_written(folder):
    folder.parent.write_text("in the way")
    assert vars(set_up()) == {"jax_enable_x64": True}


def test_nothing_is_kept_without_a_home(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert vars(set_up()) == {"jax_enable_x64": True}
    assert not any(tmp_path.iterdir())


def test_what_a_killed_process_left_half_written_is_removed(folder):
    folder.mkdir(parents=True)
    for name in ("whole-cache", "whole-atime", "half-cache"):
        (folder / name).touch()
    set_up()
    assert {path.name for path in folder.iterdir()} >= {"whole-cache", "whole-atime"}
    assert not (folder / "half-cache").exists()
