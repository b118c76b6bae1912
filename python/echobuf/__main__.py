"""`python -m echobuf`: the same as the command `echobuf`."""

import sys

from echobuf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
