"""Measurements, never tests: what they say depends on the machine (docs/performance.md, docs/scale.md)."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))  # servers, deliveries and desks are those that the tests have
