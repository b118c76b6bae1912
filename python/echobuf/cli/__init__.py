"""The command line of echobuf; `echobuf.cli.main` is its entry point."""

from importlib.util import find_spec

__all__ = ["CommandError", "UsageError", "require"]


class CommandError(Exception):
    """A failure of a command, with exit code 1; the message is one line."""


class UsageError(CommandError):
    """A wrong use of a command, with exit code 2; the message is one line."""


def require(extra: str, packages: dict[str, str]) -> None:
    """Check that the packages of an extra are installed, without importing them.

    Args:
        extra: The extra of echobuf that installs them, such as `"demo"`.
        packages: Name of the module to the name under which it is installed.

    Raises:
        CommandError: Some are missing; names them, and how to install them.
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
