"""What the doctor makes of what it has seen: tables of cases, none of which touches a file or a network."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from support.desk import new_id
from support.executions import INSTANCE_ID, PROVIDER
from support.tables import each_row
from wakegate_console.doctor import (
    certificates,
    clock,
    instances,
    keys,
    provider,
    public_url,
    settings,
    store,
    users,
    work,
)
from wakegate_console.doctor.access import ENTER, READ, WRITE, User
from wakegate_console.doctor.asking import Asked, Health
from wakegate_console.doctor.certificates import Certificate
from wakegate_console.doctor.deployment import Deployment
from wakegate_console.doctor.finding import Said, lasted, sized
from wakegate_console.doctor.posting import Delivered, Reply, message, other_slash
from wakegate_schema import strict_json
from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND
from wakegate_schema.records import ClockMark, Instance, Registration
from wakegate_schema.sealing import Sealer
from wakegate_schema.wire import VerificationEvent, parse_object

NOW = 1_800_000_000 * SECOND
KEY = Path("/somewhere/receiver.key")


def worst(said: Iterable[Said]) -> str:
    """The worst verdict among these; `silent` for none."""
    order = ["ok", "note", "warning", "problem"]
    return max((each.verdict for each in said), key=order.index, default="silent")


def in_words(said: Iterable[Said]) -> str:
    """All that was said."""
    return "\n".join(f"{each.what} → {each.do}" for each in said)


@each_row(("skew_s", "verdict"), [(0, "ok"), (5, "ok"), (-5, "ok"), (6, "warning"), (-6, "warning"),
                                                 (60, "warning"), (61, "problem"), (-4000, "problem")])  # fmt: skip
def test_skew(skew_s: int, verdict: str) -> None:
    said = clock.judge_skew(PROVIDER, skew_s * SECOND)
    assert said.verdict == verdict
    if verdict != "ok":
        assert ("behind" in said.what) == (skew_s > 0)


@each_row(("highest", "verdict"), [(0, "ok"), (NOW, "ok"), (NOW + 5 * SECOND, "ok"),
                                                  (NOW + 6 * SECOND, "problem")])  # fmt: skip
def test_marks(highest: int, verdict: str) -> None:
    assert clock.judge_mark("host", NOW, highest).verdict == verdict


@each_row(("free", "files", "verdict"), [(2 << 30, 9, "ok"), (2 << 30, None, "ok"),
                                                        (1 << 29, 9, "warning"), (1 << 20, 9, "problem"),
                                                        (2 << 30, 0, "problem")])  # fmt: skip
def test_room(free: int, files: int | None, verdict: str) -> None:
    assert store.judge_room(free, files, Path("/somewhere")).verdict == verdict


@each_row(("applied", "verdict"), [({1, 2, 3}, "ok"), ({1, 2}, "problem"), ({1, 2, 3, 4}, "note"),
                                                  (set(), "problem")])  # fmt: skip
def test_migrations(applied: set[int], verdict: str) -> None:
    for by_themselves in (True, False):
        said = store.judge_migrations(frozenset(applied), frozenset({1, 2, 3}), None, by_themselves=by_themselves)
        assert said.verdict == verdict
        assert (said.do.startswith("restart the services")) == (by_themselves and verdict == "problem")


def test_a_migration_that_shuts_this_program_out() -> None:
    said = store.judge_migrations(frozenset({1, 2, 3, 4}), frozenset({1, 2, 3}), 4)
    assert (said.verdict, said.do) == ("problem", "upgrade this one")


@each_row(
    ("seen", "due", "verdict", "words"),
    [
        ([], {}, "warning", "never was a sign"),
        ([NOW - 10 * MINUTE], {}, "warning", "10 min old"),
        ([NOW - 20 * SECOND], {}, "ok", "nothing is overdue"),
        ([NOW - 20 * SECOND], {"execution": NOW + HOUR}, "ok", "nothing is overdue"),
        ([NOW - 20 * SECOND], {"execution": NOW - HOUR}, "warning", "although somebody works"),
        ([NOW - HOUR], {"wake": NOW - HOUR}, "problem", "wakes for 60 min"),
        ([NOW + DAY], {"cancel": NOW - HOUR}, "problem", "cancels"),
    ],
)
def test_workers(seen: list[int], due: dict[str, int], verdict: str, words: str) -> None:
    said = work.judge_worker([ClockMark(f"host-{at}", at) for at in seen], due, NOW)
    assert said.verdict == verdict
    assert words in said.what


@each_row(
    ("health", "wanted", "verdict"),
    [
        (Health(ready=True), True, "ok"),
        (Health(ready=False, reason="disk_full"), True, "problem"),
        (Health(ready=False, obstacle="not_running"), True, "problem"),
        (Health(ready=False, obstacle="not_running"), False, "note"),
        (Health(ready=False, obstacle="refused_to_us"), True, "note"),
        (Health(ready=False, obstacle="silent"), True, "problem"),
    ],
)
def test_receivers(health: Health, wanted: bool, verdict: str) -> None:
    assert work.judge_health(health, "c.sock", wanted=wanted).verdict == verdict


@pytest.mark.parametrize(("recent", "verdict"), [({}, "ok"), ({"wrong_path": 9}, "note"),
                                                 ({"wrong_path": 9, "timestamp_off": 1}, "warning")])  # fmt: skip
def test_refusals(recent: dict[str, int], verdict: str) -> None:
    assert worst(work.judge_refusals(recent)) == verdict


@each_row(
    ("asked", "verdict"),
    [
        (Asked(PROVIDER, "desk", status=404, code="not_found"), "ok"),
        (Asked(PROVIDER, "desk", status=401), "ok"),
        (Asked(PROVIDER, "desk", status=404, code="not_found", seconds=2.5), "warning"),
        (Asked(PROVIDER, "desk", failure="dns"), "problem"),
        (Asked(PROVIDER, "desk", status=301), "problem"),
        (Asked(PROVIDER, "desk", status=500), "problem"),
        (Asked(PROVIDER, "desk", status=429), "note"),
    ],
)
def test_reach(asked: Asked, verdict: str) -> None:
    assert provider.judge_reach(asked).verdict == verdict


@each_row(
    ("asked", "verdict"),
    [
        (Asked(PROVIDER, "desk", status=404, code="not_found"), "ok"),
        (Asked(PROVIDER, "desk", status=404), "problem"),
        (Asked(PROVIDER, "desk", status=200), "problem"),
        (Asked(PROVIDER, "desk", status=401), "problem"),
        (Asked(PROVIDER, "desk", status=403), "problem"),
        (Asked(PROVIDER, "desk", status=405), "problem"),
        (Asked(PROVIDER, "desk", status=429), "silent"),
        (Asked(PROVIDER, "desk", status=503), "silent"),
        (Asked(PROVIDER, "desk", status=302), "silent"),
        (Asked(PROVIDER, "desk", failure="timeout"), "silent"),
        (Asked(PROVIDER, None, status=401), "silent"),
    ],
)
def test_credentials(asked: Asked, verdict: str) -> None:
    assert worst(provider.judge_credential(asked)) == verdict


@each_row(
    ("certificate", "verdict"),
    [
        (Certificate(NOW + 90 * DAY), "ok"),
        (Certificate(NOW + 13 * DAY), "warning"),
        (Certificate(NOW - 1), "problem"),
        (Certificate(NOW + 90 * DAY, self_signed=True, distrust="self-signed certificate"), "problem"),
        (Certificate(NOW + 90 * DAY, self_signed=True), "ok"),
        (Certificate(NOW + 90 * DAY, distrust="unable to get local issuer certificate"), "problem"),
        (Certificate(NOW + 90 * DAY, names=("a.example",), distrust="Hostname mismatch, …"), "problem"),
    ],
)
def test_certificates(certificate: Certificate, verdict: str) -> None:
    assert certificates.judge(certificate, "host", NOW).verdict == verdict


@each_row(("left", "verdict"), [(None, "note"), (-1, "problem"), (0, "problem"), (6 * DAY, "warning"),
                                               (7 * DAY, "ok")])  # fmt: skip
def test_expiry(left: int | None, verdict: str) -> None:
    ends = None if left is None else NOW + left
    instance = Instance(PROVIDER, INSTANCE_ID, "desk", "active", None, "webhook", b"sealed", ends, NOW)
    assert instances.judge_expiry(instance, NOW).verdict == verdict


@each_row(
    ("state", "replacing", "until", "verdict"),
    [
        ("verified", False, None, "silent"),
        ("expected", True, None, "warning"),
        ("verified", True, None, "warning"),
        ("superseded", False, NOW + HOUR, "note"),
        ("superseded", False, NOW, "silent"),
        ("retired", False, NOW + HOUR, "silent"),
    ],
)
def test_rotations(state: str, replacing: bool, until: int | None, verdict: str) -> None:
    registration = a_registration(state=state, replacing=replacing, superseded_until=until)
    assert worst(instances.judge_rotation(registration, NOW)) == verdict


@each_row(
    ("url", "provider", "verdict"),
    [
        ("https://a.example/aap/events", PROVIDER, "ok"),
        ("https://a.example/aap/events", "http://127.0.0.1:8081", "ok"),
        ("http://127.0.0.1:8080/aap/events", "http://localhost:8081", "ok"),
        ("http://[::1]:8080/aap/events", "http://[::1]:8081", "ok"),
        ("http://127.0.0.1:8080/aap/events", PROVIDER, "problem"),
        ("http://a.example/aap/events", PROVIDER, "problem"),
        ("https://a.example/aap/events/", PROVIDER, "warning"),
        ("https://a.example/hooks/7", PROVIDER, "note"),
        ("https://a.example", PROVIDER, "note"),
    ],
)
def test_forms(url: str, provider: str, verdict: str) -> None:
    assert public_url.judge_form("desk", url, "/aap/events", provider).verdict == verdict


RIGHT = Reply(status=200, challenged=True)


@each_row(
    ("public", "local", "signed", "verdict", "words"),
    [
        (RIGHT, RIGHT, True, "ok", "answers a signed message rightly"),
        (RIGHT, None, True, "ok", "answers a signed message rightly"),
        (Reply(status=200, challenged=True, seconds=4.0), RIGHT, True, "warning", "only after 4.0 s"),
        (Reply(status=400, reason="missing_webhook_id"), None, False, "note", "leads to the receiver"),
        (Reply(status=400, reason="missing_webhook_id"), RIGHT, True, "problem", "webhook-signature headers on"),
        (Reply(status=401, reason="unauthenticated"), RIGHT, True, "problem", "rewrites the body or its headers"),
        (Reply(status=401, reason="unauthenticated"), Reply(status=401, reason="unauthenticated"), True, "problem",
         "so it is by the local one"),
        (Reply(status=401, reason="unauthenticated"), None, True, "problem", "either something on the way"),
        (Reply(status=401), RIGHT, True, "problem", "asks for a login"),
        (Reply(status=403, reason="registration_retired"), RIGHT, True, "problem", "another store or key"),
        (Reply(status=403), RIGHT, True, "problem", "firewall"),
        (Reply(status=404, reason="wrong_path"), RIGHT, True, "problem", "pass it on as /aap/events"),
        (Reply(status=404), RIGHT, True, "problem", "no route"),
        (Reply(status=405, reason="wrong_method"), RIGHT, True, "problem", "pass POST on as POST"),
        (Reply(status=408, reason="request_timeout"), RIGHT, True, "problem", "holds the body back"),
        (Reply(status=413), RIGHT, True, "problem", "limit on bodies"),
        (Reply(status=413, reason="body_too_large"), RIGHT, True, "problem", "WAKEGATE_MAX_BODY_BYTES"),
        (Reply(status=415, reason="wrong_content_encoding"), RIGHT, True, "problem", "compresses"),
        (Reply(status=415, reason="wrong_charset"), RIGHT, True, "problem", "character set"),
        (Reply(status=503, reason="store_unavailable"), RIGHT, True, "problem", "without its store"),
        (Reply(status=503), RIGHT, True, "problem", "no receiver to pass it on to"),
        (Reply(status=502), RIGHT, True, "problem", "cannot reach the receiver"),
        (Reply(status=599), RIGHT, True, "problem", "log of the proxy"),
        (Reply(status=200), RIGHT, True, "problem", "not this receiver"),
        (Reply(status=307, location="https://b.example/x"), RIGHT, True, "problem", "to https://b.example/x (307)"),
        (Reply(status=302), RIGHT, True, "problem", "which no provider follows"),
        (Reply(failure="timeout"), RIGHT, True, "problem", "from inside"),
        (Reply(failure="dns"), RIGHT, True, "problem", "publish the host's name"),
        (Reply(failure="tls"), RIGHT, True, "problem", "url.tls"),
        (Reply(failure="malformed_http"), RIGHT, True, "problem", "the answer is not HTTP"),
    ],
)  # fmt: skip
def test_deliveries(public: Reply, local: Reply | None, signed: bool, verdict: str, words: str) -> None:
    url = "https://a.example/aap/events?token=planted"
    found = Delivered(a_registration(), url, signed, public, local)
    said = list(public_url.judge(found, "/aap/events"))
    assert worst(said) == verdict
    assert words in in_words(said)
    assert "planted" not in in_words(said)


def test_a_sibling_that_works_says_which_slash_is_right() -> None:
    wrong = Reply(status=404)
    for url, words in (("https://a.example/aap/events", "with a trailing"), ("https://a.example/x/", "without its")):
        found = Delivered(a_registration(), url, True, wrong, RIGHT, sibling=RIGHT)
        assert f"{words} " in in_words(public_url.judge(found, "/aap/events"))


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("https://a.example/x", "https://a.example/x/"),
        ("https://a.example/x/", "https://a.example/x"),
        ("https://a.example/x?q=1", "https://a.example/x/?q=1"),
    ],
)
def test_the_other_slash(url: str, other: str) -> None:
    assert other_slash(url) == other


def test_the_message_is_a_verification_written_as_no_library_does() -> None:
    message_id, challenge = new_id(), new_id()
    body = message(a_registration(), message_id, challenge)
    event = parse_object(VerificationEvent, body)
    assert (event.id, event.challenge, event.instance_id) == (message_id, challenge, INSTANCE_ID)
    assert strict_json.dumps(strict_json.parse(body)) != body


@each_row(
    ("mode", "uid", "gid", "verdict"),
    [
        (0o2770, 1, 9, "ok"),
        (0o770, 1, 9, "warning"),
        (0o2750, 1, 9, "problem"),
        (0o2770, 1, 8, "problem"),
        (0o2777, 1, 9, "problem"),
        (0o1777, 0, 0, "problem"),
    ],
)
def test_folders(mode: int, uid: int, gid: int, verdict: str) -> None:
    status = a_status(stat.S_IFDIR | mode, uid, gid)
    assert worst(users.judge_folder(Path("/somewhere"), status, two_users())) == verdict


@each_row(
    ("mode", "uid", "gid", "locked_out"),
    [
        (0o660, 1, 9, []),
        (0o600, 1, 9, ["the worker"]),
        (0o600, 2, 9, ["the receiver"]),
        (0o644, 0, 0, ["the receiver", "the worker"]),
        (0o660, 1, 1, ["the worker"]),
        (0o064, 1, 9, ["the receiver"]),
    ],
)
def test_files(mode: int, uid: int, gid: int, locked_out: list[str]) -> None:
    said = list(users.judge_file(Path("/s/wakegate.db-wal"), a_status(stat.S_IFREG | mode, uid, gid), two_users()))
    assert [each for each in ("the receiver", "the worker") if f"locks {each} " in in_words(said)] == locked_out
    assert ("used by everybody" in in_words(said)) == bool(mode & 0o007)


@each_row(
    ("user", "wanted", "may"),
    [
        (User(0, frozenset()), READ | WRITE | ENTER, True),
        (User(5, frozenset()), READ | WRITE, True),
        (User(5, frozenset({7})), ENTER, False),
        (User(6, frozenset({7})), READ, True),
        (User(6, frozenset({7})), WRITE, False),
        (User(6, frozenset()), READ, False),
    ],
)
def test_access(user: User, wanted: int, may: bool) -> None:
    assert user.may(a_status(stat.S_IFREG | 0o640, 5, 7), wanted) is may


NEWEST, OLDER, STRANGE = (Fernet(Fernet.generate_key()) for _ in range(3))


@each_row(
    ("sealed_under", "verdict", "words"),
    [
        ([], "ok", "nothing is sealed"),
        ([NEWEST, NEWEST], "ok", "opens 2 sealed values"),
        ([NEWEST, OLDER], "note", "by an older key"),
        ([NEWEST, STRANGE], "problem", "does not open 1 of 2 values"),
        ([STRANGE], "problem", "does not open 1 of 1 value"),
    ],
)
def test_opening(sealed_under: list[Fernet], verdict: str, words: str) -> None:
    live = tuple(Sealer([each]).seal("purpose", b"planted") for each in sealed_under)
    said = keys.judge_opening(KEY, Sealer([NEWEST, OLDER]), live)
    assert said.verdict == verdict
    assert words in said.what


@each_row(("seconds", "text"), [(0, "0 s"), (119, "119 s"), (600, "10 min"), (3 * 3600, "3 h"),
                                               (5 * 86_400, "5 days")])  # fmt: skip
def test_lengths_of_time(seconds: int, text: str) -> None:
    assert lasted(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(5, "5 bytes"), (2048, "2.0 KiB"), (3 << 30, "3.0 GiB")])
def test_sizes(count: int, text: str) -> None:
    assert sized(count) == text


def a_registration(**changes: object) -> Registration:
    """A verified one."""
    values: dict[str, object] = {
        "registration_id": new_id(), "provider": PROVIDER, "name": "desk", "state": "verified",
        "sealed_secret": b"sealed", "url": None, "idempotency_key": None, "instance_id": INSTANCE_ID,
        "created_at": NOW, "expected_until": NOW,
    }  # fmt: skip
    return Registration(**(values | changes))  # type: ignore[arg-type]


def a_status(mode: int, uid: int, gid: int) -> os.stat_result:
    """A file's status."""
    return os.stat_result((mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


def two_users() -> Deployment:
    """A receiver and a worker of one group."""
    return Deployment(User(1, frozenset({9})), User(2, frozenset({9})), KEY, KEY.with_name("worker.key"))


@each_row(
    ("mode", "known", "other", "verdict"),
    [
        ("auto", True, True, "ok"),
        ("never", False, True, "ok"),
        ("never", True, False, "warning"),
        ("always", True, False, "ok"),
        ("always", True, True, "note"),
    ],
)
def test_the_setting_of_consumption(mode: str, known: bool, other: bool, verdict: str) -> None:
    knowing, others = frozenset({PROVIDER} if known else ()), frozenset({"https://other.example"} if other else ())
    assert worst(settings.judge_consumption(mode, knowing, others)) == verdict


@each_row(("since", "verdict"), [(None, "ok"), (NOW - HOUR, "ok"), (NOW - HOUR - SECOND, "warning")])
def test_outcomes_that_are_owed(since: int | None, verdict: str) -> None:
    assert work.judge_reports(0 if since is None else 2, since, NOW).verdict == verdict
