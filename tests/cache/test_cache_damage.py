"""Items that are damaged, or half-written by a killed process, are never served."""

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

import echobuf
import echobuf.cache
from cache_data import (
    COUNT,
    Numbered,
    check,
    check_all,
    in_child,
    item,
    make,
    size_of,
    store_of,
)
from echobuf.cache.checksum import _factors, sum_words
from echobuf.cache.items import DamagedError, ItemEncoder, decode_item, is_valid

PACKAGE = str(Path(echobuf.cache.__file__).parent)
NUMBER = 5


def test_an_encoded_item_with_any_byte_changed_is_invalid():
    encoded = ItemEncoder(item(NUMBER)).encode(NUMBER)
    assert is_valid(encoded, NUMBER)
    check(decode_item(encoded, NUMBER), NUMBER)
    for at in range(len(encoded)):
        for change in (1, 128, 255):
            changed = bytearray(encoded)
            changed[at] ^= change
            assert not is_valid(changed, NUMBER)
            with pytest.raises(DamagedError):
                decode_item(changed, NUMBER)


def slow_sum(data):
    """Return the checksum of large items, word by word, in Python's integers."""
    factors, total = _factors.tolist(), 0
    words = np.frombuffer(data, "<u8").tolist()
    whole = len(words) // len(factors) * len(factors)
    for begin in range(0, whole + 1, len(factors)):
        block = words[begin : begin + len(factors)]
        each = sum(a * b for a, b in zip(block, factors, strict=False))
        total = (total * 0x9E3779B97F4A7C15 + each) % 2**64
    return total >> 32


@pytest.mark.parametrize("words", [0, 1, 2, 4095, 4096, 4097, 8192, 20001])
def test_the_checksum_of_large_items_is_that_of_a_slow_reference(words):
    data = np.random.default_rng(words).bytes(8 * words)
    assert sum_words(data) == slow_sum(data)
    assert sum_words(b"") == 0


def test_the_factors_of_the_checksum_are_the_same_everywhere():
    """Caches on disks hold checksums."""
    assert sum_words(bytes(range(256)) * 256) == 1520843996


def test_a_large_item_with_a_changed_bit_swapped_words_or_zeros_is_invalid():
    value = np.random.default_rng(1).integers(0, 256, 70_000, np.uint8)
    encoded = ItemEncoder(value).encode(NUMBER)
    assert encoded[:4] == b"ecb2"
    assert is_valid(encoded, NUMBER)
    chance = np.random.default_rng(2)
    for at in chance.integers(0, len(encoded), 2000):
        changed = bytearray(encoded)
        changed[at] ^= 1 << chance.integers(8)
        assert not is_valid(changed, NUMBER)
    for size in (8, 4096, 32768):
        for _ in range(20):
            one, two = 8 * chance.integers(4, (len(encoded) - size) // 8, 2)
            changed = bytearray(encoded)
            changed[one : one + size] = encoded[two : two + size]
            assert not is_valid(changed, NUMBER) or changed == encoded
            changed[one : one + size] = bytes(size)
            assert not is_valid(changed, NUMBER)


def test_large_items_with_the_checksum_of_small_ones_are_valid():
    """Earlier states of the repository have stored them so."""
    encoded = ItemEncoder(bytes(50_000)).encode(NUMBER)
    encoded[:4] = b"ecb1"
    encoded[4:8] = zlib.crc32(encoded[8:]).to_bytes(4, "little")
    assert decode_item(encoded, NUMBER) == bytes(50_000)


def test_an_encoded_item_cut_off_longer_or_of_another_number_is_invalid():
    encoded = ItemEncoder(item(NUMBER)).encode(NUMBER)
    for end in range(len(encoded)):
        assert not is_valid(encoded[:end], NUMBER)
        assert not is_valid(encoded[:end] + bytes(len(encoded) - end), NUMBER) or (
            not any(encoded[end:])
        )
    assert not is_valid(encoded + b"\0", NUMBER)
    assert not is_valid(encoded, NUMBER + 1)


def filled(**kwargs):
    source = Numbered()
    cached = make(source=source, **kwargs)
    check_all(cached)
    cached.flush()
    source.reads.clear()
    return cached, source


def check_read_again(cached, source, numbers, *, stored):
    """Check all items, which were read again, and whether they were stored anew."""
    check_all(cached)
    assert source.reads == numbers
    assert cached.stats().damaged == len(numbers)
    check_all(cached)
    assert source.reads == (numbers if stored else [*numbers, *numbers])


def test_a_damaged_item_in_memory_is_stored_anew():
    begin, size = 40 * 2 * 8 + 16, size_of(item(0))
    for at in (0, 3, 5, 9, 17, 25, 40, size // 2, size - 17):
        cached, source = filled()
        store_of(cached).memory.view[begin + at] ^= 1
        check_read_again(cached, source, [0], stored=True)


@pytest.mark.parametrize("word", ["offset", "size"])
@pytest.mark.parametrize("value", [1, 2**40, 2**63, 16])
def test_a_damaged_table_entry_is_stored_anew(word, value):
    cached, source = filled(max_bytes=10**5)
    table = store_of(cached).memory.view.cast("Q")
    table[2 + 2 * NUMBER + (word == "size")] = value
    check_read_again(cached, source, [NUMBER], stored=True)
    assert cached.stats().items == COUNT


def test_a_damaged_item_of_a_full_memory_is_read_from_the_source():
    cached, source = filled(max_bytes=sum(size_of(item(n)) for n in range(COUNT)))
    store_of(cached).memory.view.cast("Q")[2 + 2 * NUMBER] = 16
    check_read_again(cached, source, [NUMBER], stored=False)
    assert cached.stats().items == COUNT - 1


def offset_of(directory, number):
    """Return the offset of an item's array in the file of the store."""
    found = (directory / "items.sqlite3").read_bytes().find(item(number)["x"].tobytes())
    assert found > 0
    return found


def test_a_damaged_item_on_disk_is_stored_anew(tmp_path):
    directory = tmp_path / "cache"
    in_child(lambda: filled(directory=directory))
    at = offset_of(directory, NUMBER)
    with (directory / "items.sqlite3").open("r+b") as file:
        file.seek(at)
        file.write(b"damaged")
    source = Numbered()
    cached = make(directory, source=source)
    whole = cached.stats()
    check_read_again(cached, source, [NUMBER], stored=True)
    # Buffered, it replaces the damaged one: it does not count as another item.
    assert (cached.stats().items, cached.stats().bytes) == (whole.items, whole.bytes)
    cached.flush()
    assert (cached.stats().items, cached.stats().bytes) == (whole.items, whole.bytes)
    in_child(lambda: check_read_again(make(directory), Numbered(), [], stored=True))


def test_items_damaged_anywhere_on_disk_are_never_served(tmp_path):
    source = [bytes([number]) * 4000 for number in range(30)]
    whole = tmp_path / "whole"

    def fill():
        cached = make(whole, source=source)
        assert list(cached) == source

    def look(directory):
        cached = make(directory, source=source)
        for _ in range(2):
            assert list(cached) == source
        assert cached.stats().damaged > 0

    in_child(fill)
    content = (whole / "items.sqlite3").read_bytes()
    chance = random.Random(1)
    offsets = [content.find(each) for each in source]
    for _ in range(10):
        directory = tmp_path / "damaged"
        shutil.copytree(whole, directory)
        with (directory / "items.sqlite3").open("r+b") as file:
            for _ in range(3):
                file.seek(chance.choice(offsets) + chance.randrange(3990))
                file.write(chance.randbytes(10))
        in_child(look, directory)
        shutil.rmtree(directory)


def use(path, source):
    """Read all items twice, and flush; return whether the store was opened."""
    try:
        cached = make(path, 10**8, source=source)
    except echobuf.OptionError:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(2):
            assert list(cached) == source
            cached.flush()
        cached.stats()
        store_of(cached).stored_mask(len(source))
    return True


@pytest.mark.parametrize("size", [40, 5000])
def test_changed_bytes_anywhere_in_a_store_end_no_process(tmp_path, size):
    source = [bytes([number]) * (size + 3 * number) for number in range(200)]
    path = tmp_path / "store"

    def fill():
        cached = make(path, 10**8, source=source)
        for number in range(len(source)):
            assert cached[number] == source[number]
            if number % 20 == 0:
                cached.flush()

    in_child(fill)
    whole = (path / "items.sqlite3").read_bytes()
    chance = random.Random(size)
    opened = set()
    for _ in range(30):
        changed = bytearray(whole)
        for _ in range(chance.choice([1, 4, 30, 300])):
            at = chance.randrange(chance.choice([100, 8192, len(whole)]))
            changed[at] ^= 1 << chance.randrange(8)
        (path / "items.sqlite3").write_bytes(changed)
        child = os.fork()
        if child == 0:
            code = 9
            try:
                signal.alarm(60)
                code = use(path, source)
            finally:
                os._exit(code)
        opened.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert opened == {0, 1}


def killed_at(line, work):
    """Run `work` in a child, killed at this line of the package; return if it was."""
    child = os.fork()
    if child == 0:
        left = itertools.count(line, -1)

        def trace(frame, event, arg):
            if not frame.f_code.co_filename.startswith(PACKAGE):
                return None
            if event == "line" and next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        try:
            sys.settrace(trace)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def kill_writers(place):
    """Kill a writer at each line; check what it left. Return how many lines it has."""
    directory = place()
    cached = make(directory, source=Numbered(4))

    def work():
        own = make(directory, source=Numbered(4)) if directory else cached
        check(own[1], 1)
        own.flush()

    lines = 0
    while killed_at(lines, work):
        lines += 1 if directory is None else 17
        other = make(directory, source=Numbered(4)) if directory else cached
        assert other.stats().damaged == 0
        check_all(other)
        assert other.stats().damaged == 0
        if directory:  # the next writer gets a new directory
            directory = place()
        else:
            assert cached.stats().items == 4
            cached = make(source=Numbered(4))
    return lines


IN_MEMORY = """
from test_cache_damage import kill_writers
assert kill_writers(lambda: None) > 30
"""


def test_a_writer_killed_anywhere_leaves_nothing_torn(place):
    if place() is not None:
        assert kill_writers(place) > 30
        return
    # It forks for each line: quicker where little else is in memory.
    folder = Path(__file__).parent
    subprocess.run([sys.executable, "-c", IN_MEMORY], check=True, cwd=folder)


def test_writers_killed_at_any_time_leave_nothing_torn(tmp_path):
    directory = tmp_path / "cache"
    source = [bytes([number]) * 20000 for number in range(200)]
    make(directory, max_bytes=10**8, source=source)

    def write(begin, pipe):
        cached = make(directory, max_bytes=10**8, source=source)
        for number in range(begin, len(source)):
            assert cached[number] == source[number]
            cached.flush()
            os.write(pipe, b".")

    for begin in range(0, 100, 20):
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                write(begin, sender)
            finally:
                os._exit(1)
        os.close(sender)
        assert len(os.read(receiver, 1)) == 1
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(receiver)
        cached = make(directory, max_bytes=10**8, source=source)
        assert list(cached) == source
        assert cached.stats().damaged == 0
        if begin == 0:  # the killed writer has left items
            assert cached.stats().hits > 0
