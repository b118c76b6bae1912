"""A cache of a Hugging Face dataset knows its fingerprint."""

import pytest

import echobuf
from cache_data import in_child
from echobuf.cache import CachedDataset


def test_the_fingerprint_of_hugging_face_is_part_of_the_identity(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"id": list(range(10))}
    first = datasets.Dataset.from_dict(columns)
    other = datasets.Dataset.from_dict({"id": [0, *range(2, 10), 9]})
    assert [first[n] for n in (0, 9)] == [other[n] for n in (0, 9)]

    def use(source):
        cached = CachedDataset(source, 10**6, directory=tmp_path)
        assert list(cached) == list(source)

    in_child(use, first)
    in_child(use, datasets.Dataset.from_dict(columns))
    with pytest.raises(echobuf.OptionError, match="is a cache of other data"):
        use(other)
