"""Files that appear whole or not at all, have one name, and are changed by one process at a time."""

import os

import pytest

from fastacct.core import files
from fastacct.core.files import atomic_output, locked, real_file, refuse_existing, remove_partial, text_in


def test_a_file_of_somebody_else_is_not_replaced(tmp_path):
    """It may be there at once, or appear while ours is written: then ours is removed."""
    path = tmp_path / "a.json"
    path.write_text("theirs")
    with pytest.raises(FileExistsError, match="overwrite"), atomic_output(path, overwrite=False):
        raise AssertionError("nothing is written")
    late = tmp_path / "b.json"

    def write():
        with atomic_output(late, overwrite=False) as file:
            file.write_text("ours")
            late.write_text("theirs")

    with pytest.raises(FileExistsError, match="overwrite"):
        write()
    assert path.read_text() == late.read_text() == "theirs"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_what_was_there_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")

    def write():
        with atomic_output(path, overwrite=True) as file:
            file.write_text("half")
            assert path.read_text() == "old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]
    with atomic_output(path, overwrite=True) as file:
        file.write_text("new")
    assert path.read_text() == "new"


def test_folders_are_no_files(tmp_path):
    with pytest.raises(IsADirectoryError, match="name of a file"):
        refuse_existing(tmp_path, True)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        refuse_existing(tmp_path / "none" / "a", True)


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
def test_a_file_has_one_name_and_an_end(tmp_path):
    """A budget with two names would be two budgets after the next change."""
    path, other, link = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    path.write_text("x")
    link.symlink_to(path)
    assert real_file(link) == path.resolve()
    assert real_file(tmp_path / "new") == (tmp_path / "new").resolve()
    os.link(path, other)
    for name in (path, other, link):
        with pytest.raises(OSError, match=r"2 names \(hard links\)"):
            real_file(name)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        real_file(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no regular file"):
        text_in(tmp_path / "pipe", 10)


def test_a_text_that_is_too_long_or_none_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert text_in(path, 5) == "12345"
    with pytest.raises(ValueError, match="more than 4 bytes"):
        text_in(path, 4)
    path.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="UTF-8"):
        text_in(path, 5)


@pytest.mark.skipif(os.name != "posix", reason="locks of one process exclude each other")
def test_one_holder_at_a_time(tmp_path):
    path = tmp_path / "budget"
    with locked(path, "busy"):
        with pytest.raises(BlockingIOError, match="busy"), locked(path, "busy"):
            raise AssertionError("two at once")
        assert (tmp_path / ".budget.lock").exists()
    assert not (tmp_path / ".budget.lock").exists()
    with locked(path, "busy"), locked(tmp_path / "other", "busy"):
        pass


@pytest.mark.skipif(os.name != "posix", reason="no open file is removed there")
def test_who_holds_a_lock_file_that_was_removed_holds_nothing(tmp_path, monkeypatch):
    """Between opening and locking the holder before removed it, and a third one has made and locked a new one."""
    lock, take = tmp_path / ".budget.lock", files._take

    def slowly(file, *, waits):
        lock.unlink()
        lock.touch()
        take(file, waits=waits)

    monkeypatch.setattr(files, "_take", slowly)
    with pytest.raises(BlockingIOError, match="busy"), locked(tmp_path / "budget", "busy"):
        raise AssertionError("two at once")


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path):
    path = tmp_path / "a[1].json"
    for name in (".a[1].json.0f.partial", ".a1.json.0f.partial", "a[1].json"):
        (tmp_path / name).touch()
    remove_partial(path)
    assert sorted(one.name for one in tmp_path.iterdir()) == [".a1.json.0f.partial", "a[1].json"]
