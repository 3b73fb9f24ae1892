"""`python -m wakegate_provider`: the provider with the settings of this process."""

import sys

import uvloop

from wakegate_provider.service import serve
from wakegate_schema.errors import WakegateError
from wakegate_schema.logs import configure
from wakegate_schema.settings import load_settings


def main() -> int:
    """Run the provider; 2 when it cannot start."""
    try:
        settings = load_settings(None)
        configure(settings.log_format, level=settings.log_level)
        uvloop.run(serve(settings))
    except WakegateError as error:
        sys.stderr.write(f"wakegate: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
