"""`python -m swiftlet` is the command `swiftlet`."""

import sys

from swiftlet.cli import main

if __name__ == "__main__":
    sys.exit(main())
