"""Repeats: which of many tries that came to the same are told in the log. Pure."""


def is_told(tries: int, *, changed: bool = False) -> bool:
    """Return whether to log a failed try: when its problem is another one, and of the same the 1st, 10th, 100th …

    Args:
        tries: how many failed, this one included; from 1.
        changed: whether the try before had another problem, or none.
    """
    digits = str(tries)
    return changed or digits == "1".ljust(len(digits), "0")
