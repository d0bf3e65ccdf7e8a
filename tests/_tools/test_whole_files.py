"""Files that are written whole, or not at all."""

import numpy as np
import pytest

import owlfi
from owlfi._tools.files import write_whole


def write_half(path):
    with write_whole(path) as file:
        file.write(b"half")
        raise OSError(28, "No space left on device")


def test_file_that_cannot_be_written_whole_is_named_and_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match=r"design.csv cannot be written \(No space left on device\)"):
        write_half(tmp_path / "design.csv")
    assert not list(tmp_path.iterdir())


def test_result_that_was_there_stays_where_the_disk_is_full(tmp_path, monkeypatch):
    posterior = owlfi.Posterior(("a",), np.array([[1.0], [3.0]]), np.array([0.5, 0.5]))
    file = posterior.save(tmp_path / "posterior.npz")

    def fill(opened, **_):
        opened.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fill)
    with pytest.raises(OSError, match=r"posterior.npz cannot be written \(No space left"):
        posterior.save(file)
    assert repr(owlfi.load(file)) == repr(posterior)
    assert list(tmp_path.iterdir()) == [file]


def test_links_to_a_file_stay_links(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with write_whole(tmp_path / "link") as file:
        file.write(b"whole")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"whole"
