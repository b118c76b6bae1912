"""A server of digits for each module."""

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("digits")


@pytest.fixture(scope="module")
def digits(folder):
    from echobuf.cli.demo import data

    return data.write_digits(folder)


@pytest.fixture(scope="module")
def server(folder, digits):
    from echobuf.cli.demo.upstream import ServerProcess

    with ServerProcess(folder) as process:
        yield process
