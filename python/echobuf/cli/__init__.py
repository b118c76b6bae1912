"""The command line of echobuf; `echobuf.cli.main` is where it starts."""

from importlib.util import find_spec

__all__ = ["CommandError", "UsageError", "require"]


class CommandError(Exception):
    """A command cannot go on; the message is one line for the user, exit code 1."""


class UsageError(CommandError):
    """The command was called wrongly; the message is one line, exit code 2."""


def require(extra: str, packages: dict[str, str]) -> None:
    """Makes sure that the packages of an extra are installed, importing none.

    Args:
        extra: The extra of echobuf that brings them, such as `"demo"`.
        packages: Name of the module to the name under which it is installed.

    Raises:
        CommandError: Some are missing; says which, and how to install them.
    """
    missing = [name for module, name in packages.items() if not _installed(module)]
    if missing:
        hint = f"pip install 'data-echoing[{extra}]'"
        raise CommandError(f"{', '.join(missing)} not installed: {hint}")


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # sys.modules holds None for it: importing it is forbidden
        return False
