"""Files of renewed items: their bytes stay within the limit, whoever is killed."""

import json
import multiprocessing
import os
import resource
import shutil
import threading
import warnings

import numpy as np
import pytest

import echobuf
from cache_data import in_child, size_of
from cache_data import make as make_kept
from helpers import Worker
from renewed_data import Renewed, make, read_epoch

NOBODY = 65534


def item_files(directory):
    """Return the bytes of each item's file, by index."""
    paths = (directory / "items").glob("*/*")
    return {int(path.name): path.stat().st_size for path in paths}


def check_count(cached, directory):
    """Check that the sizes noted are those of the files."""
    found = item_files(directory)
    stats = cached.stats()
    assert (stats.items, stats.bytes) == (len(found), sum(found.values()))
    return stats.bytes


def test_a_new_generation_takes_the_place_of_the_old_one(tmp_path):
    cached = make(tmp_path)
    for epoch in range(9):
        read_epoch(cached, epoch)
        assert check_count(cached, tmp_path) > 0
        assert set(item_files(tmp_path)) <= set(range(12))
    assert sorted(os.listdir(tmp_path)) == ["echobuf-cache.json", "items", "sizes"]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_limit_holds_while_items_grow_and_shrink(tmp_path, share):
    whole = make(tmp_path / "whole")
    read_epoch(whole, 1)
    most = int(share * whole.stats().bytes)
    directory = tmp_path / "part"
    cached = make(directory, max_bytes=most)
    for epoch in range(12):
        cached.set_epoch(epoch)
        for index in range(12):
            cached[index]
            assert check_count(cached, directory) <= most
    assert cached.stats().hits > 0
    read_epoch(cached, 12)


def test_an_item_that_no_longer_fits_makes_room_for_others(tmp_path):
    lengths = {0: 100, 1: 900}
    cached = make(
        tmp_path,
        2,
        source=range(4),
        prepare=lambda _: bytes(lengths[echobuf.cache.get_renewal().generation]),
        max_bytes=2 * size_of(bytes(900)) - 1,
    )
    for epoch in (0, 2):
        cached.set_epoch(epoch)
        [cached[index] for index in range(4)]
    assert item_files(tmp_path) == {0: size_of(bytes(900))}


def die_at(call):
    """Let this process end at a call that changes the directory, as if killed."""
    left = [call]

    def die():
        left[0] -= 1
        if left[0] < 0:
            os._exit(0)

    def deadly(function):
        def call(*args, **kwargs):
            die()
            return function(*args, **kwargs)

        return call

    def write_part(descriptor, data, at):
        die()
        return pwrite(descriptor, data[: max(100, len(data) // 2)], at)

    pwrite = os.pwrite
    for name in ("open", "unlink", "mkdir", "ftruncate", "close"):
        setattr(os, name, deadly(getattr(os, name)))
    os.pwrite = write_part


@pytest.mark.parametrize("is_new", [True, False])
def test_a_process_that_is_killed_at_any_call_leaves_a_right_directory(
    tmp_path, is_new
):
    def killed(directory, call):
        die_at(call)
        cached = make(directory)
        cached.set_epoch(3)
        cached[0], cached[1]
        os._exit(1)

    for call in range(100):
        directory = tmp_path / str(call)
        if not is_new:
            in_child(read_epoch, make(directory), 0)
        child = multiprocessing.get_context("fork").Process(
            target=killed, args=(directory, call)
        )
        child.start()
        child.join(60)
        cached = make(directory)
        for epoch in (3, 4):
            check_count(cached, directory)
            read_epoch(cached, epoch)
        check_count(cached, directory)
        names = [name for name in os.listdir(directory) if name[0] != "."]
        assert sorted(names) == ["echobuf-cache.json", "items", "sizes"]
        if child.exitcode == 1:
            break
        assert child.exitcode == 0
    else:
        raise AssertionError("it changes the directory at more than 100 calls")
    assert call > 15


def test_one_that_waits_goes_on_when_the_other_is_killed(tmp_path):
    cached = make(tmp_path)
    begun = multiprocessing.get_context("fork").Event()

    def hold():
        other = make(tmp_path)
        with other._store._sizes.locked():  # noqa: SLF001 - no call holds it so long
            begun.set()
            threading.Event().wait()

    child = multiprocessing.get_context("fork").Process(target=hold)
    child.start()
    assert begun.wait(60)
    reader = Worker(read_epoch, cached, 0)
    child.kill()
    reader.result()
    child.join()
    check_count(cached, tmp_path)


def test_a_child_that_was_forked_while_a_thread_stores_can_store(tmp_path):
    cached = make(tmp_path)
    cached[0]
    with cached._store._sizes.locked():  # noqa: SLF001 - no call holds it so long
        child = multiprocessing.get_context("fork").Process(
            target=read_epoch, args=(cached, 0)
        )
        child.start()
    child.join(60)
    assert child.exitcode == 0
    assert check_count(cached, tmp_path) > 0


def test_a_child_that_stores_nothing_holds_no_lock(tmp_path):
    """It was forked while a thread had the lock, and outlives its parent."""
    go = multiprocessing.get_context("fork").Event()
    parent = os.fork()
    if parent == 0:
        cached = make(tmp_path)
        with cached._store._sizes.locked():  # noqa: SLF001 - no call holds it so long
            if os.fork() == 0:
                go.wait(60)
            os._exit(0)
    assert os.waitpid(parent, 0)[1] == 0
    read_epoch(make(tmp_path), 0)
    go.set()


@pytest.mark.parametrize("epochs", [(0, 0), (3, 4), (2, 9)])
def test_processes_and_threads_share_a_directory(tmp_path, epochs):
    most = 4000
    fork = multiprocessing.get_context("fork")

    def use(epoch):
        cached = make(tmp_path, max_bytes=most)

        def read():
            for _ in range(4):
                read_epoch(cached, epoch)
                assert cached.stats().bytes <= most

        cached.set_epoch(epoch)
        for worker in [Worker(read) for _ in range(3)]:
            worker.result()
        assert cached.stats().damaged == 0

    children = [fork.Process(target=use, args=(epoch,)) for epoch in epochs * 2]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    cached = make(tmp_path, max_bytes=most)
    assert 0 < check_count(cached, tmp_path) <= most


@pytest.mark.parametrize(
    "change", ["byte", "cut", "longer", "empty", "other", "folder"]
)
def test_a_damaged_item_is_made_again(tmp_path, change):
    cached = make(tmp_path, source=(source := Renewed()))
    read_epoch(cached, 0)
    path = tmp_path / "items" / "0" / "4"
    data = bytearray(path.read_bytes())
    if change == "folder":
        path.unlink()
        path.mkdir()
    elif change == "other":
        shutil.copy(path.with_name("7"), path)
    else:
        changed = {"cut": data[:-5], "longer": data + b"\0", "empty": b""}
        data[len(data) // 2] ^= 1
        path.write_bytes(changed.get(change, data))
    source.made.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if change == "folder" else "error")
        read_epoch(cached, 0)
    last_used = [(2, 0), (5, 0), (8, 0), (11, 0)]
    assert sorted(source.made) == sorted([(4, 0), *last_used])
    assert cached.stats().damaged == (change != "other")
    if change != "folder":
        check_count(cached, tmp_path)


def test_sizes_that_are_lost_cut_off_or_wrong_are_counted_again(tmp_path):
    def fill():
        read_epoch(make(tmp_path), 0)

    in_child(fill)
    sizes = tmp_path / "sizes"
    whole = sizes.read_bytes()
    for data in (b"", whole[:-3], whole + b"\0", b"\xff" * len(whole), None):
        if data is None:
            sizes.unlink()
        else:
            sizes.write_bytes(data)
        cached = make(tmp_path)
        check_count(cached, tmp_path)
        assert sizes.read_bytes() == whole


def test_sizes_that_are_cut_off_in_use_end_no_process(tmp_path):
    cached = make(tmp_path)
    read_epoch(cached, 0)
    os.truncate(tmp_path / "sizes", 3)
    for epoch in range(1, 5):
        read_epoch(cached, epoch)
    in_child(lambda: check_count(make(tmp_path), tmp_path))


def test_a_read_only_directory_serves_its_items(open_path):
    path = open_path / "cache"
    in_child(lambda: read_epoch(make(path), 0))
    for each in (path, *path.rglob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)

    def use():
        cached = make(path, source=(source := Renewed()))
        read_epoch(cached, 0)
        assert len(source.made) == 4
        read_epoch(cached, 1)
        assert len(source.made) == 4 + 4
        stats = cached.stats()
        assert (stats.items, stats.read_only) == (8, True)

    in_child(use, user=NOBODY)
    for each in (path, *path.rglob("*")):
        each.chmod(0o755)


def test_a_full_disk_is_warned_of_once_and_all_items_are_right(tmp_path):
    def use():
        cached = make(tmp_path)
        read_epoch(cached, 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (120, 120))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for epoch in range(4):
                read_epoch(cached, epoch)
        assert len(caught) == 1
        assert "can take no more items (" in str(caught[0].message)
        assert cached.stats().hits > 8

    def look():
        cached = make(tmp_path)
        check_count(cached, tmp_path)
        read_epoch(cached, 4)

    in_child(use)
    in_child(look)


def test_a_directory_that_is_gone_is_missed_by_nobody(tmp_path):
    cached = make(tmp_path / "cache")
    read_epoch(cached, 0)
    shutil.rmtree(tmp_path / "cache")
    for epoch in range(3):
        read_epoch(cached, epoch)
    assert os.listdir(tmp_path) == []


def test_a_directory_of_the_other_kind_or_seed_is_refused(tmp_path):
    kept, renewed = tmp_path / "kept", tmp_path / "renewed"
    in_child(lambda: make_kept(kept, identity="renewed", source=[1, 2])[0])
    in_child(lambda: make(renewed, source=[1, 2], seed=3)[0])
    before = (renewed / "echobuf-cache.json").read_text()
    with pytest.raises(echobuf.OptionError, match="kept as they are, without `renew`"):
        make(kept, source=[1, 2])
    with pytest.raises(echobuf.OptionError, match=r"renewed, with `seed` 3; here .*as"):
        make_kept(renewed, identity="renewed", source=[1, 2])
    with pytest.raises(echobuf.OptionError, match=r"with `seed` 3; here .* `seed` 4"):
        make(renewed, source=[1, 2], seed=4)
    assert (renewed / "echobuf-cache.json").read_text() == before
    assert json.loads(before)["seed"] == 3
    make(renewed, 7, source=[1, 2], seed=np.int64(3))  # the same items, at other epochs


def test_descriptors_that_are_used_up_are_explained(tmp_path):
    def use():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        with pytest.raises(echobuf.CapacityError, match="file descriptors"):
            [make(tmp_path) for _ in range(64)]

    in_child(use)
