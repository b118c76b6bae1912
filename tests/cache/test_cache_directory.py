"""A directory is used if it is this cache's, or empty; otherwise nothing is changed."""

import json
import multiprocessing
import os
import resource
import stat
import threading
import warnings

import pytest

import echobuf
from cache_data import COUNT, Numbered, check_all, in_child, item, make
from echobuf.cache import CachedDataset, directory
from helpers import Worker

NOBODY = 65534


def contents(path):
    """Return every file below a path, with its bytes and time of last change."""
    return {
        str(each.relative_to(path)): (
            each.read_bytes() if each.is_file() else None,
            each.stat().st_mtime_ns,
        )
        for each in path.rglob("*")
    }


def check_refused(path, line, **kwargs):
    before = contents(path)
    with pytest.raises(echobuf.OptionError, match=line) as caught:
        make(path, **kwargs)
    assert "Nothing in it was changed" in str(caught.value)
    assert contents(path) == before


def check_not_opened(path, line):
    store = (path / "items.sqlite3").read_bytes()

    def use():  # in a child, which the system may end
        with pytest.raises(echobuf.OptionError, match=line):
            make(path)

    in_child(use)
    assert (path / "items.sqlite3").read_bytes() == store


def filled(path, **kwargs):
    """Fill a cache in another process; return its directory, which none has open."""
    in_child(lambda: check_all(make(path, **kwargs)))
    return path


def change_marker(path, **changes):
    marker = path / "echobuf-cache.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), **changes}))


def test_a_new_directory_is_made_with_its_parents_and_used_again(tmp_path):
    path = tmp_path / "a" / "b"
    filled(path)
    source = Numbered()
    check_all(make(path, source=source))
    assert source.reads == []
    assert sorted(os.listdir(path)) == ["echobuf-cache.json", "items.sqlite3"]


def test_an_empty_directory_is_used(tmp_path):
    check_all(make(tmp_path))


@pytest.mark.parametrize("name", ["items.sqlite3", "notes.txt", ".hidden", "folder"])
def test_another_programs_directory_is_refused(tmp_path, name):
    if name == "folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(b"precious")
    check_refused(tmp_path, f"has files that are no cache of echobuf's: {name}")


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", '{"format": "other"}', "\xff"])
def test_another_programs_marker_is_refused(tmp_path, text):
    (tmp_path / "echobuf-cache.json").write_text(text, encoding="latin1")
    check_refused(tmp_path, "echobuf-cache.json that echobuf did not write")


def test_a_file_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(echobuf.OptionError, match="is a file, not a directory"):
        make(path)
    with pytest.raises(echobuf.OptionError, match="cannot be used: Not a directory"):
        make(path / "below")
    assert path.read_text() == "precious"


def test_another_version_is_refused(tmp_path):
    change_marker(filled(tmp_path), version=1)
    check_refused(tmp_path, "is a cache of version 1; this version .* reads version 2")


def test_other_data_is_refused(tmp_path):
    filled(tmp_path)
    check_refused(tmp_path, "of 40 items with `identity` 'numbered'", identity="other")
    check_refused(tmp_path, "here there are 3", source=Numbered(3))


def test_other_data_without_identity_is_refused(tmp_path):
    def given(**kwargs):
        return CachedDataset(
            kwargs.pop("source", Numbered()), 10**6, directory=tmp_path, **kwargs
        )

    def fill():
        check_all(given())

    in_child(fill)
    for kwargs in (
        {"source": Numbered(salt=1)},
        {"source": Numbered(COUNT - 1)},
        {"source": [item(number) for number in range(COUNT)]},
        {"prepare": lambda got: got["x"]},
    ):
        with pytest.raises(echobuf.OptionError, match="is a cache of other data"):
            given(**kwargs)
    assert given().stats().items == COUNT


def test_a_file_that_is_no_store_is_refused(tmp_path):
    (filled(tmp_path) / "items.sqlite3").write_bytes(b"x" * 9000)
    check_not_opened(tmp_path, "whose store cannot be opened: .*not a database")


@pytest.mark.parametrize("share", [0.001, 0.5])
def test_a_store_that_was_cut_off_is_refused(tmp_path, share):
    store = filled(tmp_path) / "items.sqlite3"
    os.truncate(store, int(store.stat().st_size * share))
    check_not_opened(
        tmp_path, "whose store cannot be opened: .*(malformed|not a database)"
    )


def test_a_read_only_directory_serves_its_items(open_path):
    path = open_path / "cache"
    in_child(lambda: [make(path)[number] for number in range(20)])
    for each in (path, *path.iterdir()):
        each.chmod(0o555 if each.is_dir() else 0o444)
    before = contents(path)

    def use():
        source = Numbered()
        cached = make(path, source=source)
        for _ in range(2):
            check_all(cached)
        assert source.reads == [*range(20, COUNT), *range(20, COUNT)]
        stats = cached.stats()
        assert (stats.items, stats.hits, stats.read_only) == (20, 40, True)

    in_child(use, user=NOBODY)
    assert contents(path) == before
    path.chmod(0o755)


@pytest.mark.parametrize("state", ["empty", "marked", "absent", "unreadable"])
def test_a_read_only_directory_without_a_cache_is_refused(open_path, state):
    path = open_path / "cache"
    if state != "absent":
        path.mkdir()
    if state == "marked":
        filled(path)
        (path / "items.sqlite3").unlink()
    for each in (*path.glob("*"), open_path, *open_path.glob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)
    if state == "unreadable":
        path.chmod(0o000)
    line = {
        "empty": "cannot be written to, and holds no cache",
        "marked": "cannot be written to, and holds nothing",
        "absent": "cannot be used: Permission denied",
        "unreadable": "cannot be used: Permission denied",
    }[state]

    def use():
        with pytest.raises(echobuf.OptionError, match=line):
            make(path)

    in_child(use, user=NOBODY)
    open_path.chmod(0o755)
    if path.exists():
        path.chmod(0o755)


SOURCE = [bytes([number]) * 20000 for number in range(100)]


def check_full(path, serves):
    """Check that a cache on a full disk warns once, and serves all items."""
    cached = make(path, 10**8, source=SOURCE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert list(cached) == SOURCE
            cached.flush()
    assert len(caught) == 1
    assert "can take no more items" in str(caught[0].message)
    assert (cached.stats().hits > 0) == serves


def test_a_cache_serves_its_items_when_the_disk_fills_up(tmp_path):
    def fill():
        cached = make(tmp_path, 10**8, source=SOURCE)
        for number in range(30):
            cached[number]
        cached.flush()
        limit = (tmp_path / "items.sqlite3").stat().st_size + 50000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        check_full(tmp_path, serves=True)

    def look():
        cached = make(tmp_path, 10**8, source=SOURCE)
        assert cached.stats().items == 30
        assert list(cached) == SOURCE
        assert cached.stats().damaged == 0

    in_child(fill)
    in_child(look)
    in_child(lambda: check_all_stored(tmp_path))


def check_all_stored(path):
    cached = make(path, 10**8, source=SOURCE)
    assert cached.stats().items == len(SOURCE)


def test_a_cache_on_a_full_disk_serves_its_items(tmp_path):
    in_child(lambda: make(tmp_path, 10**8, source=SOURCE)[3])

    def use():
        limit = (tmp_path / "items.sqlite3").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        check_full(tmp_path, serves=True)

    in_child(use)


def test_two_caches_of_one_directory_share_items(tmp_path):
    one, two = make(tmp_path), make(tmp_path)
    one[3]
    one.flush()
    two[3]
    assert two.stats().hits == 1
    del one
    check_all(two)


def test_the_marker_has_the_rights_of_a_new_file(tmp_path, monkeypatch):
    def refuse(mask):
        raise AssertionError("the umask is that of all threads")

    def use():
        os.umask(0o027)
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", refuse)
            make(tmp_path / "cache")

    in_child(use)
    mode = (tmp_path / "cache" / "echobuf-cache.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o640


def test_many_processes_may_make_the_directory_at_once(tmp_path):
    """Threads of several processes make it; each can use it."""
    path = tmp_path / "new" / "cache"
    fork = multiprocessing.get_context("fork")
    begin = fork.Barrier(3)

    def use():
        begin.wait(60)
        together = threading.Barrier(4)

        def make_one():
            together.wait(60)
            check_all(make(path))

        for worker in [Worker(make_one) for _ in range(4)]:
            worker.result()

    processes = [fork.Process(target=use) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(contents(path)) == ["echobuf-cache.json", "items.sqlite3"]
    assert make(path).stats().items == COUNT


def test_a_directory_with_a_store_and_a_new_marker_is_used(tmp_path, monkeypatch):
    """A listing may show the store, and not the marker that was written before."""
    path = tmp_path / "cache"
    in_child(lambda: check_all(make(path)))
    monkeypatch.setattr(directory.os, "listdir", lambda _: ["items.sqlite3"])
    check_all(make(path))


def test_the_first_user_that_is_refused_leaves_what_another_has_made(
    tmp_path, monkeypatch
):
    path = tmp_path / "cache"

    def other_then_full(at, contents):
        (at / "echobuf-cache.json.other").write_text("another first user's")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(directory, "_write_marker", other_then_full)
    with pytest.raises(echobuf.OptionError, match="cannot be used: No space left"):
        make(path)
    assert path.exists()
