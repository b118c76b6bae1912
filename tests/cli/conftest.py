"""The command line, called as a function."""

import pytest

from echobuf.cli.main import main


@pytest.fixture
def called(capsys):
    """A function that runs a command, and returns exit code, stdout and stderr."""

    def call(*arguments):
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
