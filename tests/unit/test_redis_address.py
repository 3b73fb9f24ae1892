"""WAKEGATE_QUEUE: which addresses of Redis are taken, and what the client is told. No password is ever among them."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from redis.sentinel import SentinelConnectionPool

from support.tables import each_row
from wakegate_schema.errors import WakegateError
from wakegate_schema.queue import EmbeddedRinger, QueueError, QueueLocation, open_ringer
from wakegate_schema.queue.redis_address import RedisAddress, checked, parse
from wakegate_schema.queue.redis_client import connect

TAKEN = [
    ("redis://localhost", (("localhost", 6379),), None, None, 0, None),
    ("redis://wakegate@redis.example:6380/3", (("redis.example", 6380),), None, None, 3, "wakegate"),
    ("redis://[::1]:6380?db=2", (("::1", 6380),), None, None, 2, None),
    ("rediss://redis.example?ssl_ca_certs=/etc/ca.pem", (("redis.example", 6379),), None, None, 0, None),
    ("unix:///run/redis/redis.sock", (), "/run/redis/redis.sock", None, 0, None),
    ("unix://wakegate@/run/redis.sock?db=15", (), "/run/redis.sock", None, 15, "wakegate"),
    ("redis+sentinel://a:26379,b/mymaster/1", (("a", 26379), ("b", 26379)), None, "mymaster", 1, None),
    (
        "rediss+sentinel://u@a/mymaster?ssl_ca_certs=ca.pem&sentinel_auth=true",
        (("a", 26379),),
        None,
        "mymaster",
        0,
        "u",
    ),
]
REFUSED = [
    ("redis://user:s3cret@localhost", "WAKEGATE_QUEUE_PASSWORD_FILE"),
    ("redis://:s3cret@localhost", "WAKEGATE_QUEUE_PASSWORD_FILE"),
    ("redis://localhost?password=s3cret", "WAKEGATE_QUEUE_PASSWORD_FILE"),
    ("rediss://localhost?ssl_password=s3cret", "WAKEGATE_QUEUE_PASSWORD_FILE"),
    ("unix://:s3cret@/run/redis.sock", "WAKEGATE_QUEUE_PASSWORD_FILE"),
    ("redis+sentinel://:s3cret@a/mymaster", "WAKEGATE_QUEUE_PASSWORD_FILE"),
    ("redis+cluster://a:6379", "RQ cannot work on one"),
    ("rediss://localhost?ssl_cert_reqs=none", "not allowed here"),
    ("redis://localhost?ssl_ca_certs=/etc/ca.pem", "TLS options belong to rediss://"),
    ("redis://localhost?socket_timeout=60", "not allowed here"),
    ("redis://localhost/0?db", "options like"),
    ("rediss://localhost?ssl_check_hostname=no", "true or false"),
    ("redis://", "must name a host"),
    ("redis://:6379", "must name a host"),
    ("redis://localhost:0", "must name a host"),
    ("redis://localhost:70000", "must name a host"),
    ("redis://a,b/0", "several are Sentinels"),
    ("redis://localhost/zero", "by its number"),
    ("redis://localhost/0#x", "without a fragment"),
    ("unix://run/redis.sock", "absolute path"),
    ("unix://", "absolute path"),
    ("redis+sentinel://a:26379", "must name the service"),
    ("amqp://localhost", "must be embedded"),
    ("localhost:6379", "must be embedded"),
]


@each_row(("url", "hosts", "path", "service", "database", "username"), TAKEN)
def test_an_address_is_read(
    url: str,
    hosts: tuple[tuple[str, int], ...],
    path: str | None,
    service: str | None,
    database: int,
    username: str | None,
) -> None:
    assert checked(url) == url
    address = parse(url)
    assert (address.hosts, address.path, address.service) == (hosts, path, service)
    assert (address.database, address.username) == (database, username)


@each_row(("url", "says"), REFUSED)
def test_another_address_is_refused_and_nothing_of_it_shown(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("?", r"\?")) as caught:
        checked(url)
    assert "s3cret" not in str(caught.value)


def test_a_file_for_tls_that_is_not_there_is_told_by_its_name() -> None:
    with pytest.raises(QueueError, match="which ssl_ca_certs names"):
        open_ringer(QueueLocation("rediss://localhost?ssl_ca_certs=/no/ca.pem"))


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    packages = Path(sysconfig.get_path("purelib"))
    for entry in packages.iterdir():
        if not entry.name.startswith(("redis", "rq")):
            (tmp_path / entry.name).symlink_to(entry)
    program = (
        "from wakegate_schema.queue import QueueError, QueueLocation, open_ringer\n"
        "try: open_ringer(QueueLocation('redis://localhost'))\n"
        "except QueueError as error: print(error.reason, error)"
    )
    environment = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2] / 'schema'}"}
    told = subprocess.run([sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True)
    assert told.stdout.startswith("extra_missing "), told.stderr
    assert "pip install 'wakegate[redis]'" in told.stdout


def options_of(address: RedisAddress) -> dict[str, object]:
    client = connect(address, "pw", answer_s=4)
    client.close()
    return dict(client.connection_pool.connection_kwargs)


def test_a_client_is_bounded_in_time_and_proves_its_server(tmp_path: Path) -> None:
    ca, chain, key = (tmp_path / name for name in ("ca.pem", "c.pem", "k.pem"))
    for file in (ca, chain, key):
        file.touch()
    told = options_of(parse(f"rediss://u@h:1/2?ssl_ca_certs={ca}&ssl_certfile={chain}&ssl_keyfile={key}"))
    expected = {
        "host": "h", "port": 1, "db": 2, "username": "u", "password": "pw",
        "socket_timeout": 4, "socket_connect_timeout": 1.0,
        "ssl_ca_certs": str(ca), "ssl_certfile": str(chain), "ssl_keyfile": str(key), "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
    }  # fmt: skip
    assert {name: told[name] for name in expected} == expected


def test_sentinels_are_told_the_password_only_where_the_url_says_so() -> None:
    for url, password in (("redis+sentinel://a,b/m", None), ("redis+sentinel://a,b/m?sentinel_auth=true", "pw")):
        client = connect(parse(url), "pw", answer_s=4)
        pool = client.connection_pool
        assert isinstance(pool, SentinelConnectionPool)
        told = [each.connection_pool.connection_kwargs.get("password") for each in pool.sentinel_manager.sentinels]
        assert told == [password, password]
        assert pool.connection_kwargs["password"] == "pw"


def test_the_embedded_queue_has_nothing_to_ring() -> None:
    ringer = open_ringer(QueueLocation("embedded"))
    ringer.ring()
    assert ringer.state() is None
    assert isinstance(ringer, EmbeddedRinger)


def test_a_password_file_that_others_may_read_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "redis.password"
    file.write_text("s3cret\n")
    file.chmod(0o644)
    with pytest.raises(WakegateError, match="the password of the queue's Redis") as caught:
        open_ringer(QueueLocation("redis://localhost", file))
    assert "s3cret" not in str(caught.value)
