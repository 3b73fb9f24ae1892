"""`python -m wakegate_console` is the `wakegate` command."""

import sys

from wakegate_console.entry import main

if __name__ == "__main__":
    sys.exit(main())
