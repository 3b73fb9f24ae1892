"""What the doctor makes of what PostgreSQL and Redis say of themselves."""

from typing import Any

import pytest

from support.tables import each_row
from wakegate_console.doctor import postgresql, queue
from wakegate_console.doctor.redis_look import Pool
from wakegate_console.doctor.server_look import Standby
from wakegate_console.doctor.ways import Way, way
from wakegate_schema.clock import SECOND

SYNC, ASYNC, UNSEEN = Standby("one", "sync"), Standby("two", "async"), Standby("one", None)
MASTER = {"redis_version": "7.2.4", "role": "master", "cluster_enabled": 0}
MIB = 1 << 20


@each_row(
    ("host", "found"),
    [("/var/run", "socket"), ("", "socket"), ("@abstract", "socket"), ("127.0.0.1", "loopback"), ("::1", "loopback"),
     ("localhost", "loopback"), ("10.0.0.1", "network"), ("db.example", "network")],
)  # fmt: skip
def test_a_way(host: str, found: str) -> None:
    assert way(host) == found


@pytest.mark.parametrize(("number", "verdict"), [(140_000, "ok"), (139_999, "problem"), (180_001, "ok")])
def test_a_version(number: int, verdict: str) -> None:
    assert postgresql.judge_version("x", number).verdict == verdict


@pytest.mark.parametrize(
    ("lacking", "superuser", "verdict"),
    [([], False, "ok"), ([], True, "note"), (["DELETE on wake"], False, "problem")],
)
def test_a_role(lacking: list[str], superuser: bool, verdict: str) -> None:
    said = postgresql.judge_role("w", lacking, superuser=superuser)
    assert said.verdict == verdict
    assert all(each in said.what for each in lacking)


@each_row(
    ("wanted", "found", "sees", "verdict"),
    [
        ("", [], True, "note"),
        ("", [ASYNC], True, "warning"),
        ("", [UNSEEN], False, "warning"),
        ("one", [SYNC], True, "ok"),
        ("ANY 1 (one, two)", [Standby("one", "quorum"), ASYNC], True, "ok"),
        ("one", [ASYNC], True, "problem"),
        ("one", [], True, "problem"),
        ("one", [UNSEEN], False, "note"),
    ],
)
def test_standbys(wanted: str, found: list[Standby], sees: bool, verdict: str) -> None:
    assert postgresql.judge_standbys(wanted, found, sees_roles=sees).verdict == verdict


@pytest.mark.parametrize(
    ("seconds", "confirmed", "verdict"), [(0.01, True, "ok"), (0.3, True, "warning"), (5.0, False, "problem")]
)
def test_a_commit(seconds: float, confirmed: bool, verdict: str) -> None:
    assert postgresql.judge_commit(seconds, confirmed=confirmed).verdict == verdict


@pytest.mark.parametrize(("used", "verdict"), [(3, "ok"), (80, "ok"), (81, "warning")])
def test_connections(used: int, verdict: str) -> None:
    assert postgresql.judge_connections(used, 100).verdict == verdict


@each_row(
    ("where", "encrypted", "verdict"),
    [("socket", False, "ok"), ("loopback", False, "ok"), ("network", False, "warning"), ("network", True, "ok")],
)
def test_tls_to_postgresql(where: Way, encrypted: bool, verdict: str) -> None:
    assert postgresql.judge_tls(where, encrypted=encrypted).verdict == verdict


@each_row(
    ("skew", "blur", "verdict"),
    [(0, 0, "ok"), (6 * SECOND, 0, "warning"), (-6 * SECOND, 0, "warning"), (6 * SECOND, 2 * SECOND, "ok"),
     (61 * SECOND, 0, "problem")],
)  # fmt: skip
def test_the_servers_clock(skew: int, blur: int, verdict: str) -> None:
    assert postgresql.judge_skew(skew, blur).verdict == verdict


@each_row(
    ("changes", "verdict"),
    [
        ({}, "ok"),
        ({"role": "slave"}, "problem"),
        ({"cluster_enabled": 1}, "problem"),
        ({"redis_version": "4.0.9"}, "problem"),
    ],
)
def test_a_redis(changes: dict[str, Any], verdict: str) -> None:
    assert queue.judge_server(MASTER | changes).verdict == verdict


def test_a_redis_that_may_not_be_asked() -> None:
    assert queue.judge_server({}).verdict == "note"


@each_row(
    ("where", "password", "verdict"),
    [("network", False, "warning"), ("network", True, "ok"), ("socket", False, "ok"), ("loopback", False, "ok")],
)
def test_a_login(where: Way, password: bool, verdict: str) -> None:
    assert queue.judge_login(where, password=password).verdict == verdict


@each_row(
    ("where", "encrypted", "password", "verdict"),
    [("network", False, False, "note"), ("network", False, True, "warning"), ("network", True, True, "ok"),
     ("socket", False, True, "ok")],
)  # fmt: skip
def test_tls_to_redis(where: Way, encrypted: bool, password: bool, verdict: str) -> None:
    assert queue.judge_tls(where, encrypted=encrypted, password=password).verdict == verdict


@each_row(
    ("most", "used", "policy", "verdict", "words"),
    [
        (0, 5 * MIB, "noeviction", "ok", "no limit"),
        (9 * MIB, MIB, "noeviction", "ok", "it refuses hints"),
        (9 * MIB, MIB, "allkeys-lru", "ok", "throw hints away"),
        (9 * MIB, 9 * MIB, "noeviction", "warning", "nothing is lost"),
    ],
)
def test_memory(most: int, used: int, policy: str, verdict: str, words: str) -> None:
    said = queue.judge_memory({"maxmemory": most, "used_memory": used, "maxmemory_policy": policy})
    assert said.verdict == verdict
    assert words in said.what


@each_row(
    ("pool", "own", "verdict"),
    [(Pool(1, 0), True, "ok"), (Pool(0, 0), True, "note"), (Pool(0, 3), False, "warning"), (Pool(2, 3), True, "note"),
     (Pool(1, 1), False, "ok")],
)  # fmt: skip
def test_a_pool(pool: Pool, own: bool, verdict: str) -> None:
    assert queue.judge_pool("default", pool, own=own).verdict == verdict
