"""Write the OpenAPI document of the control API: `python -m wakegate_receiver.control`."""

import sys

from wakegate_receiver.control import openapi

if __name__ == "__main__":
    sys.stdout.write(openapi.text())
