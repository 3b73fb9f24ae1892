"""Growth: the same work on stores that hold ever more."""

from benchmarks.growth.measures import MEASURES

__all__ = ["MEASURES"]
