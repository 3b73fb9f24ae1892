"""The queue: whether hints get through Redis. It may lose everything: what a hint would have said, the store says."""

from collections.abc import Mapping
from typing import Any, Final

from wakegate_console.doctor.check import Check
from wakegate_console.doctor.finding import Said, counted, note, ok, problem, sized, warning
from wakegate_console.doctor.redis_look import Pool, QueueLook
from wakegate_console.doctor.site import Site
from wakegate_console.doctor.ways import Way, way
from wakegate_console.text import printable

OLDEST: Final = (5, 0)
"""The first Redis that RQ works with."""
CROWDED: Final = 0.9
_LATER: Final = "nothing is lost by it: workers find what is due by their sweep, up to WAKEGATE_SWEEP_SECONDS later"


async def reach(site: Site) -> list[Said]:
    """Say whether the queue can be used."""
    found = await site.queue()
    if found is None:
        return []
    if found.address is None:
        return [
            ok("the queue is embedded: workers on this host see each commit, those on others look at the store too")
        ]
    if found.trouble is not None:
        return [found.trouble]
    return [judge_server(found.info)]


def judge_server(info: Mapping[str, Any]) -> Said:
    """Say whether hints can be left there, by what Redis says of itself."""
    if not info:
        return note("Redis answers, and this login may not ask what it is", "allow it the command INFO")
    shown = f"Redis {printable(str(info.get('redis_version', '?')))}"
    if str(info.get("role")) != "master":
        return problem(f"{shown} is a replica, which takes no hints", "name the primary, or its Sentinels")
    if info.get("cluster_enabled"):
        return problem(f"{shown} is part of a cluster, which RQ cannot use", "name a server by itself, or Sentinels")
    if _version(str(info.get("redis_version", ""))) < OLDEST:
        return problem(f"{shown} is too old for RQ", f"upgrade it to {OLDEST[0]}.{OLDEST[1]} or later")
    return ok(f"{shown} answers")


async def login(site: Site) -> list[Said]:
    """Say whether strangers can use the Redis."""
    found = await site.queue()
    return [] if found is None or not _is_open(found) else [judge_login(_way(found), password=found.password)]


def judge_login(where: Way, *, password: bool) -> Said:
    """Say whether this way to Redis needs a password, and has one."""
    if password:
        return ok("Redis asks for a password")
    if where == "network":
        return warning(
            "Redis is reached over a network without a password: whoever reaches it can delay hints, and make workers"
            " look at the store for nothing (no more: a hint carries no code and no data)",
            "give it a password or an ACL user, and name that by WAKEGATE_QUEUE_PASSWORD_FILE",
        )
    return ok("Redis asks for no password, and is not reached over a network")


async def tls(site: Site) -> list[Said]:
    """Say whether others on the network can read along."""
    found = await site.queue()
    if found is None or found.address is None or not _is_open(found):
        return []
    return [judge_tls(_way(found), encrypted=found.address.tls, password=found.password)]


def judge_tls(where: Way, *, encrypted: bool, password: bool) -> Said:
    """Say whether this way to Redis needs TLS, and has it."""
    if encrypted:
        return ok("the connection to Redis is encrypted")
    if where != "network":
        return ok("Redis is reached without a network")
    what = "the connection to Redis crosses a network unencrypted"
    if password:
        return warning(f"{what}, and so does its password", "use rediss:// (docs/settings.md)")
    return note(f"{what}; hints carry nothing but the name of a pool", "use rediss:// (docs/settings.md)")


async def memory(site: Site) -> list[Said]:
    """Say what becomes of hints when Redis is full."""
    found = await site.queue()
    return [] if found is None or not found.info else [judge_memory(found.info)]


def judge_memory(info: Mapping[str, Any]) -> Said:
    """Say what Redis' limit and its policy mean."""
    most, used, policy = (
        int(info.get("maxmemory", 0)),
        int(info.get("used_memory", 0)),
        str(info.get("maxmemory_policy")),
    )
    if not most:
        return ok("Redis has no limit of memory of its own; hints are few and small")
    means = (
        "full, it refuses hints"
        if policy == "noeviction"
        else "full, it may throw hints away before anybody takes them"
    )
    shown = f"maxmemory {sized(most)}, policy {printable(policy)}: {means}; {_LATER}"
    if used > CROWDED * most:
        return warning(f"Redis is full, {shown}", "give it more memory, or give wakegate a Redis of its own")
    return ok(shown)


async def persistence(site: Site) -> list[Said]:
    """Say what a restart of Redis loses."""
    found = await site.queue()
    if found is None or not found.info:
        return []
    kept = bool(found.info.get("aof_enabled")) or bool(int(found.info.get("rdb_saves", 0)))
    return [
        ok(
            "Redis writes what it holds to its disk, which wakegate does not need"
            if kept
            else "Redis keeps nothing over a restart, and wakegate needs nothing of it: the store is the truth"
        )
    ]


async def listeners(site: Site) -> list[Said]:
    """Say who waits for hints."""
    found = await site.queue()
    if found is None or not _is_open(found):
        return []
    if not found.pools:
        return [note("this login may not ask who listens for hints", "allow it the commands SMEMBERS and LLEN")]
    return [judge_pool(name, pool, own=name == site.settings.pool) for name, pool in found.pools.items()]


def judge_pool(name: str, pool: Pool, *, own: bool) -> Said:
    """Say whether the hints of a pool get anywhere.

    Args:
        name: the pool's.
        pool: what Redis knows of it.
        own: whether the settings here name it.
    """
    shown = f"pool {printable(name)}: {counted(pool.listeners, 'worker listens', 'workers listen')}"
    shown += f", {counted(pool.hints, 'hint lies', 'hints lie')} in its queue"
    if not pool.listeners and pool.hints:
        return warning(
            f"{shown}: nobody takes them; {_LATER}",
            "start a worker of this pool, or see whether its workers name this Redis by WAKEGATE_QUEUE",
        )
    if not pool.listeners and own:
        return note(shown, "right while none runs; else see whether the workers name this Redis by WAKEGATE_QUEUE")
    if pool.hints > 1:
        return note(f"{shown}: its workers are busy", "add workers if store.worker says that work is overdue")
    return ok(shown)


CHECKS: Final = (
    Check("queue.reach", reach, network=True),
    Check("queue.login", login, network=True),
    Check("queue.tls", tls, network=True),
    Check("queue.memory", memory, network=True),
    Check("queue.persistence", persistence, network=True),
    Check("queue.listeners", listeners, network=True),
)


def _is_open(found: QueueLook) -> bool:
    return found.address is not None and found.trouble is None


def _way(found: QueueLook) -> Way:
    hosts = () if found.address is None else found.address.hosts
    ways = {way(host) for host, _ in hosts} or {"socket"}
    return "network" if "network" in ways else "loopback" if "loopback" in ways else "socket"


def _version(text: str) -> tuple[int, int]:
    numbers = [int(part) for part in text.split(".")[:2] if part.isdecimal()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else OLDEST
