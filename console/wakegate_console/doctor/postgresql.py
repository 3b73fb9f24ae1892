"""PostgreSQL: whether the server keeps what it confirms, lets us in, and has room for everybody."""

from collections.abc import Iterator, Sequence
from typing import Final

from wakegate_console.doctor.check import Check
from wakegate_console.doctor.finding import Said, counted, lasted, note, ok, problem, sized, warning
from wakegate_console.doctor.server_look import COMMIT_S, Standby
from wakegate_console.doctor.site import Site
from wakegate_console.doctor.ways import Way
from wakegate_console.text import printable
from wakegate_schema.clock import SECOND

OLDEST: Final = 140_000
"""The first version that has all that the store's SQL uses."""
SKEW_WARNED: Final = 5 * SECOND
SKEW_REFUSED: Final = 60 * SECOND
SLOW_S: Final = 0.25
"""A commit that takes longer is told of, in seconds: each acknowledgement waits for one."""
CROWDED: Final = 0.8
"""How much of the server's connections may be taken."""
_ANY_RIGHT = "let the owner of the tables give it: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO {}"


def reach(site: Site) -> Iterator[Said]:
    """Say whether the server answers, and is one that the store can be on."""
    if site.store.path is not None:
        return
    if site.store.trouble is not None:
        yield site.store.trouble
        return
    if site.store.server is None:
        return
    found = site.store.server.facts
    yield judge_version(str(found["version"]), int(found["number"]))


def judge_version(version: str, number: int) -> Said:
    """Say whether the store can be on a server of this version."""
    if number < OLDEST:
        return problem(f"PostgreSQL {version} is too old for the store", "upgrade the server to 14 or later")
    return ok(f"PostgreSQL {version} answers")


def primary(site: Site) -> Iterator[Said]:
    """Say whether the server takes writes."""
    if site.store.server is None:
        return
    if site.store.server.facts["standby"]:
        yield problem(
            "the server is a standby: nothing can be acknowledged and nothing runs",
            "name the primary in WAKEGATE_DATABASE, or all of them: postgresql://USER@ONE,OTHER/DATABASE. If the"
            " primary is lost and this one is promoted without its last commits, begin a new epoch before the services"
            " start: wakegate db promoted",
        )
    else:
        yield ok("the server is the primary, which takes writes")


def role(site: Site) -> Iterator[Said]:
    """Look at what the role may do."""
    if site.store.server is not None:
        found = site.store.server
        superuser = bool(found.facts["superuser"])
        if superuser or site.store.facts is not None:  # without tables nobody can tell what it may do with them
            yield judge_role(str(found.facts["role"]), found.lacking, superuser=superuser)


def judge_role(name: str, lacking: Sequence[str], *, superuser: bool) -> Said:
    """Say whether a role may do what the services do, and not much more."""
    if lacking:
        return problem(
            f"the role {printable(name)} lacks {', '.join(lacking[:4])}{' and more' if len(lacking) > 4 else ''}",
            _ANY_RIGHT.format(printable(name)),
        )
    if superuser:
        return note(
            f"the role {printable(name)} is a superuser, which no service needs: it can read every database and the"
            " server's files",
            "give the services a role of their own (docs/postgresql.md)",
        )
    return ok(f"the role {printable(name)} may do what the services do")


def durability(site: Site) -> Iterator[Said]:
    """Say whether a confirmed commit outlives a power loss."""
    if site.store.server is None:
        return
    off = [name for name in ("fsync", "full_page_writes") if not site.store.server.facts[name]]
    if off:
        yield problem(
            f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: after a power loss acknowledged notifications"
            " are gone, a call may start twice, or the database is damaged",
            "; ".join(f"ALTER SYSTEM SET {name} = on" for name in off) + "; SELECT pg_reload_conf()",
        )
    else:
        yield ok("a confirmed commit is on the server's disk (wakegate sets synchronous_commit itself)")


def standbys(site: Site) -> Iterator[Said]:
    """Say what a failover would lose."""
    found = site.store.server
    if found is not None and not found.facts["standby"]:
        yield judge_standbys(
            str(found.facts["synchronous"]), found.standbys, sees_roles=bool(found.facts["sees_standbys"])
        )


def judge_standbys(wanted: str, found: Sequence[Standby], *, sees_roles: bool) -> Said:
    """Say whether commits are on a second server before they are confirmed.

    Args:
        wanted: `synchronous_standby_names`.
        found: who streams from the server.
        sees_roles: whether this login may see what part each has.
    """
    if not wanted and not found:
        return note(
            "no standby streams from this server: its disk is the only copy of the store",
            "make backups; a standby for failover must be synchronous (docs/postgresql.md)",
        )
    if not wanted:
        return warning(
            f"{counted(len(found), 'standby streams', 'standbys stream')} from this server, none synchronous: a"
            " failover may lose acknowledged notifications and the record of started calls, which could start again",
            "set synchronous_standby_names; until then begin a new epoch after every failover, before the services"
            " start: wakegate db promoted",
        )
    if not sees_roles:
        return note(
            "commits wait for a synchronous standby, and this login may not see whether one is there",
            "GRANT pg_read_all_stats to its role",
        )
    waited = [each for each in found if each.role in ("sync", "quorum")]
    if not waited:
        return problem(
            "commits wait for a synchronous standby, and none is there: nothing is acknowledged and no call starts",
            "bring a standby back, or take it out of synchronous_standby_names, knowing that a failover loses commits",
        )
    names = ", ".join(sorted({printable(each.name) for each in waited}))
    return ok(f"commits are confirmed by a synchronous standby too ({names})")


def commit(site: Site) -> Iterator[Said]:
    """Say how long a commit takes: every acknowledgement and every start waits for one."""
    found = site.store.server
    if found is not None and found.commit_s is not None:
        yield judge_commit(found.commit_s, confirmed=found.confirmed)


def judge_commit(seconds: float, *, confirmed: bool) -> Said:
    """Say whether commits are fast enough."""
    if not confirmed:
        return problem(
            f"a commit was not confirmed within {COMMIT_S} s: it waits for a synchronous standby that does not answer",
            "look at postgresql.standbys, and at the standby and the network to it",
        )
    shown = f"a commit takes {1000 * seconds:.1f} ms"
    if seconds > SLOW_S:
        return warning(shown, "look at the server's disk, its load, and the network to a synchronous standby")
    return ok(shown)


def connections(site: Site) -> Iterator[Said]:
    """Say whether the server has connections left."""
    if site.store.server is not None:
        facts = site.store.server.facts
        yield judge_connections(int(facts["connections"]), int(facts["most"]))


def judge_connections(used: int, most: int) -> Said:
    """Say whether so many of the connections that a role may have are too many."""
    if used > CROWDED * most:
        return warning(
            f"{used} of the server's {most} connections are taken; a receiver or worker needs two",
            "raise max_connections, or put a pooler before the server",
        )
    return ok(f"{used} of the server's {most} connections are taken")


def pooler(site: Site) -> Iterator[Said]:
    """Say whether a pooler stands between."""
    if site.store.server is None:
        return
    if site.store.server.pooled:
        yield ok("a pooler stands before the server; nothing of wakegate depends on a session")
    else:
        yield ok("no pooler stands before the server")


def tls(site: Site) -> Iterator[Said]:
    """Say whether others on the network can read along."""
    if site.store.server is not None:
        yield judge_tls(site.store.server.way, encrypted=site.store.server.tls)


def judge_tls(way: Way, *, encrypted: bool) -> Said:
    """Say whether this way to the server needs TLS, and has it."""
    if way != "network":
        return ok("the server is reached without a network")
    if encrypted:
        return ok("the connection to the server is encrypted (sslmode=verify-full proves whose server it is, too)")
    return warning(
        "the connection to the server crosses a network unencrypted: calls and arguments can be read, and changed",
        "give the server a certificate and add ?sslmode=verify-full&sslrootcert=FILE to WAKEGATE_DATABASE",
    )


def clocks(site: Site) -> Iterator[Said]:
    """Compare this host's clock with the server's, which all hosts of the store share."""
    if site.store.server is not None:
        yield judge_skew(site.store.server.skew, site.store.server.blur)


def judge_skew(skew: int, blur: int) -> Said:
    """Say whether two clocks agree.

    Args:
        skew: how far the server's is ahead of ours, µs.
        blur: how exactly that is known, µs.
    """
    apart = f"{lasted(abs(skew) / SECOND)} {'behind' if skew > 0 else 'ahead of'} the server's"
    advice = "correct whichever is wrong (NTP): leases and approvals are judged by every host's own clock"
    if abs(skew) - blur > SKEW_REFUSED:
        return problem(f"this host's clock is {apart}", advice)
    if abs(skew) - blur > SKEW_WARNED:
        return warning(f"this host's clock is {apart}", advice)
    return ok("this host's clock agrees with the server's")


def upkeep(site: Site) -> Iterator[Said]:
    """Say whether the server cleans up behind the store, and how large it is."""
    if site.store.server is None:
        return
    facts = site.store.server.facts
    size = f"the database has {sized(int(facts['bytes']))}"
    if not facts["autovacuum"]:
        yield warning(
            f"{size}, and autovacuum is off: every change leaves a dead row, so it grows and slows down without end",
            "ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()",
        )
    else:
        yield ok(f"{size}; autovacuum is on")


CHECKS: Final = (
    Check("postgresql.reach", reach),
    Check("postgresql.primary", primary),
    Check("postgresql.role", role),
    Check("postgresql.durability", durability),
    Check("postgresql.standbys", standbys),
    Check("postgresql.commit", commit),
    Check("postgresql.connections", connections),
    Check("postgresql.pooler", pooler),
    Check("postgresql.tls", tls),
    Check("postgresql.clocks", clocks),
    Check("postgresql.upkeep", upkeep),
)
