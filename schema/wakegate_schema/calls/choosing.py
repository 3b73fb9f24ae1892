"""Choosing the instance that a call names. Pure."""

from collections.abc import Sequence

from wakegate_schema.calls.errors import InstanceUnclear
from wakegate_schema.records import Instance


def choose(instances: Sequence[Instance], wanted: str | None) -> Instance:
    """Return the instance of this name or id, or the only one in use when none is named.

    A retired one is found only when none in use is meant, so that an old key still leads to what became of it.

    Raises:
        InstanceUnclear: none fits, or more than one does.
    """
    in_use = [instance for instance in instances if instance.state != "retired"]
    if wanted is None:
        return _only(in_use, "the call names no instance", in_use)
    found = [instance for instance in in_use if _is(instance, wanted)]
    found = found or [instance for instance in instances if _is(instance, wanted)]
    return _only(found, f"the call names instance {wanted!r}", in_use)


def _is(instance: Instance, wanted: str) -> bool:
    return instance.name == wanted or instance.instance_id == wanted.lower()


def _only(found: Sequence[Instance], said: str, in_use: Sequence[Instance]) -> Instance:
    if len(found) == 1:
        return found[0]
    if not in_use:
        raise InstanceUnclear(f"{said}, and there is none in use; make one with `wakegate instance provision`")
    names = ", ".join(sorted(instance.name for instance in in_use)[:10])
    problem = f"{len(found)} fit" if found else "there is no such one"
    raise InstanceUnclear(f"{said}, and {problem}; in use are: {names}")
