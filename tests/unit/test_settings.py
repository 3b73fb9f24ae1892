"""Settings: where they come from, and what stops the start, by name and in one line."""

import base64
import re
from pathlib import Path

import pytest

from support.tables import each_row
from wakegate_schema.addresses import Address
from wakegate_schema.settings import Settings, SettingsError, load_settings
from wakegate_schema.signing import SigningSecret


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, so that no settings file is found by chance."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(config: Path | None = None, /, **environ: str) -> tuple[str, ...]:
    """Return the lines of the error that these variables (without `WAKEGATE_`) cause."""
    with pytest.raises(SettingsError) as caught:
        load_settings(config, {f"WAKEGATE_{name}": value for name, value in environ.items()})
    return caught.value.problems


def toml_problems(folder: Path, text: str) -> tuple[str, ...]:
    """Return the lines of the error that this settings file causes."""
    (folder / "wakegate.toml").write_text(text)
    return problems()


def from_toml(folder: Path, text: str) -> Settings:
    (folder / "wakegate.toml").write_text(text)
    return load_settings(environ={})


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = load_settings(environ={})
    assert settings.database_path == Path("wakegate.db")
    assert settings.listen == Address("127.0.0.1", 8080)
    assert settings.control_address == Path("wakegate.sock")
    assert settings.receiver_key_path == Path("receiver.key")
    assert settings.worker_key_path == Path("worker.key")
    assert settings.wake_secret_path == Path("wake.secret")
    assert settings.refusals_path == Path("refusals.jsonl")
    assert settings.provider_database_path == Path("provider.db")
    assert settings.provider_key_path == Path("provider.key")
    assert settings.provider_provisioner_token_path == Path("provisioner.token")
    assert settings.tools == ()
    assert set(settings.wake_targets) == {"none"}


def test_files_without_a_setting_lie_beside_their_database() -> None:
    settings = load_settings(
        environ={
            "WAKEGATE_DATABASE": "sqlite:////srv/w/store.db",
            "WAKEGATE_PROVIDER_DATABASE": "sqlite:////srv/p/p.db",
        }
    )
    assert settings.database_path == Path("/srv/w/store.db")
    assert settings.control_address == Path("/srv/w/wakegate.sock")
    assert settings.receiver_key_path == Path("/srv/w/receiver.key")
    assert settings.refusals_path == Path("/srv/w/refusals.jsonl")
    assert settings.provider_key_path == Path("/srv/p/provider.key")
    assert settings.provider_provisioner_token_path == Path("/srv/p/provisioner.token")


def test_the_environment_wins_over_the_file(folder: Path) -> None:
    (folder / "wakegate.toml").write_text('listen = "127.0.0.1:1000"\nlease_seconds = 60\n')
    settings = load_settings(environ={"WAKEGATE_LISTEN": "0.0.0.0:2000"})
    assert (settings.listen, settings.lease_seconds) == (Address("0.0.0.0", 2000), 60)


def test_the_named_file_wins_over_the_variable_and_the_variable_over_the_folders_own(folder: Path) -> None:
    for name, seconds in (("wakegate.toml", 11), ("variable.toml", 12), ("option.toml", 13)):
        (folder / name).write_text(f"lease_seconds = {seconds}\n")
    environ = {"WAKEGATE_CONFIG": "variable.toml"}
    assert load_settings(environ={}).lease_seconds == 11
    assert load_settings(environ=environ).lease_seconds == 12
    assert load_settings(Path("option.toml"), environ).lease_seconds == 13


def test_every_kind_of_value_is_read_from_the_environment() -> None:
    settings = load_settings(
        environ={
            "WAKEGATE_LISTEN": "[::1]:0",
            "WAKEGATE_CONTROL": "localhost:9000",
            "WAKEGATE_TOOLS": "shop.refunds, shop.mail",
            "WAKEGATE_REQUEST_TIMEOUT": "0.5",
            "WAKEGATE_MAX_BODY_BYTES": "1024",
            "WAKEGATE_EVENTS_PATH": "/",
            "WAKEGATE_LOG_FORMAT": "json",
            "WAKEGATE_LOG_LEVEL": "debug",
        }
    )
    assert settings.listen == Address("::1", 0)
    assert str(settings.listen) == "[::1]:0"
    assert settings.control_address == Address("localhost", 9000)
    assert settings.tools == ("shop.refunds", "shop.mail")
    assert settings.request_timeout == 0.5
    assert settings.max_body_bytes == 1024


def test_the_file_may_list_tools_and_name_wake_targets(folder: Path) -> None:
    settings = from_toml(
        folder,
        'tools = ["shop.refunds"]\n'
        '[wake.my-harness]\nkind = "http"\nurl = "https://harness.example/wake"\n'
        '[wake.local]\nkind = "http"\nurl = "http://127.0.0.1:9000/wake"\n',
    )
    assert settings.tools == ("shop.refunds",)
    assert set(settings.wake_targets) == {"none", "my-harness", "local"}
    target = settings.wake_targets["my-harness"]
    assert (target.name, target.kind, target.url) == ("my-harness", "http", "https://harness.example/wake")
    assert settings.wake_targets["none"].url is None


def test_the_file_may_name_programs_to_wake_by(folder: Path) -> None:
    (folder / "wakegate.toml").write_text(
        '[wake.mine]\nkind = "command"\nargv = ["/srv/woken", "--quiet"]\ntimeout = 90.5\n'
        '[wake.agent]\nkind = "python"\nentry_point = "shop.agents:Desk.woken"\ndirectory = "/srv"\n',
    )
    targets = load_settings(None, {}).wake_targets
    mine, agent = targets["mine"], targets["agent"]
    assert (mine.argv, mine.timeout, mine.directory) == (("/srv/woken", "--quiet"), 90.5, None)
    assert (agent.entry_point, agent.timeout, agent.directory) == ("shop.agents:Desk.woken", 30.0, Path("/srv"))
    assert mine.runs_a_program
    assert agent.runs_a_program
    assert not targets["none"].runs_a_program
    assert "/srv/woken" not in repr(mine)


def test_what_container_platforms_and_tests_inject_is_ignored() -> None:
    load_settings(
        environ={
            "WAKEGATE_TEST_REDIS_SERVER": "x",
            "WAKEGATE_SERVICE_HOST": "10.0.0.1",
            "WAKEGATE_PORT": "tcp://10.0.0.1:80",
            "WAKEGATE_PORT_80_TCP_ADDR": "10.0.0.1",
            "PATH": "/bin",
        }
    )


@each_row("service", ["RECEIVER", "WORKER", "RECEIVER_CONTROL", "PROD_2"])
def test_what_kubernetes_tells_of_a_service_of_ours_is_ignored(service: str) -> None:
    address = {"": "tcp://10.0.0.1:8080", "_PROTO": "tcp", "_PORT": "8080", "_ADDR": "10.0.0.1"}
    load_settings(
        environ={
            f"WAKEGATE_{service}_SERVICE_HOST": "10.0.0.1",
            f"WAKEGATE_{service}_SERVICE_PORT": "8080",
            f"WAKEGATE_{service}_SERVICE_PORT_WEBHOOKS": "8080",
            f"WAKEGATE_{service}_PORT": "tcp://10.0.0.1:8080",
            **{f"WAKEGATE_{service}_PORT_8080_TCP{suffix}": value for suffix, value in address.items()},
        }
    )


@each_row(
    ("name", "value"),
    [
        ("WAKEGATE_LISTEN_PORT", "8080"),
        ("WAKEGATE_RECEIVER_PORT", "8080"),
        ("WAKEGATE_RECEIVER_KEY", "x"),
        ("WAKEGATE_RECEIVER_SERVICE", "x"),
        ("WAKEGATE_RECEIVER_SERVICE_HOSTS", "10.0.0.1"),
        ("WAKEGATE_RECEIVER_PORT_HTTP", "8080"),
        ("WAKEGATE_RECEIVER_LISTEN", "127.0.0.1:8080"),
        ("wakegate_receiver_service_host", "10.0.0.1"),
    ],
)
def test_what_only_resembles_a_platforms_words_is_refused(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: unknown setting"):
        load_settings(environ={name: value})


WRONG = [
    ("METRICS_LISTEN", "9100", "host:port"),
    ("PROCESSES", "0", "1 to 64"),
    ("PROCESSES", "two", "whole number"),
    ("DATABASE", "", "is empty"),
    ("DATABASE", "wakegate.db", "sqlite:///FILE"),
    ("DATABASE", "sqlite://wakegate.db", "sqlite:///FILE"),
    ("DATABASE", "sqlite:///", "sqlite:///FILE"),
    ("DATABASE", "sqlite:///:memory:", "sqlite:///FILE"),
    ("DATABASE", "sqlite:///x.db?mode=ro", "sqlite:///FILE"),
    ("DATABASE", "sqlite:////tmp", "not a directory"),
    ("DATABASE", "postgres://localhost/x", "postgresql://USER@HOST:PORT/DATABASE"),
    ("DATABASE", "postgresql+psycopg://localhost/x", "postgresql://USER@HOST:PORT/DATABASE"),
    ("DATABASE", "postgresql:x", "postgresql://USER@HOST:PORT/DATABASE"),
    ("DATABASE", "postgresql://localhost", "must end with the database's name"),
    ("DATABASE", "postgresql://localhost/", "must end with the database's name"),
    ("DATABASE", "postgresql://localhost/x#y", "must end with the database's name"),
    ("DATABASE", "postgresql://me:s3cret@localhost/x", "WAKEGATE_DATABASE_PASSWORD_FILE"),
    ("DATABASE", "postgresql://:s3cret@localhost/x", "WAKEGATE_DATABASE_PASSWORD_FILE"),
    ("DATABASE", "postgresql://a@b:s3cret@localhost/x", "WAKEGATE_DATABASE_PASSWORD_FILE"),
    ("DATABASE", "postgresql://localhost/x?password=s3cret", "WAKEGATE_DATABASE_PASSWORD_FILE"),
    ("DATABASE", "postgresql://localhost/x?sslmode=require&pass%77ord=s3cret", "WAKEGATE_DATABASE_PASSWORD_FILE"),
    ("DATABASE", "postgresql://localhost/x?sslpassword=s3cret", "must not hold a secret"),
    ("DATABASE", "postgresql://localhost/x?oauth_client_secret=s3cret", "must not hold a secret"),
    ("DATABASE_PASSWORD_FILE", "whsec_c2VjcmV0LW9mLXRoZS10ZXN0", "looks like a secret"),
    ("DATABASE", "mysql://localhost/x", "sqlite:///FILE"),
    ("PROVIDER_DATABASE", "sqlite:///wakegate.db", "a store of its own"),
    ("PROVIDER_DATABASE", "sqlite:///./wakegate.db", "a store of its own"),
    ("QUEUE", "redis://:s3cret@localhost", "WAKEGATE_QUEUE_PASSWORD_FILE"),
    ("QUEUE", "redis+cluster://localhost", "RQ cannot work on one"),
    ("POOL", "big machines", "letters, digits"),
    ("QUEUE", "memory", "must be embedded"),
    ("LISTEN", ":8080", "host:port"),
    ("LISTEN", "8080", "host:port"),
    ("LISTEN", "127.0.0.1", "host:port"),
    ("LISTEN", "::1:8080", "host:port"),
    ("LISTEN", "[::1]", "host:port"),
    ("LISTEN", "[::g]:80", "host:port"),
    ("LISTEN", "[1::2::3]:80", "IPv6"),
    ("LISTEN", "127.0.0.1:65536", "host:port"),
    ("LISTEN", "127.0.0.1:-1", "host:port"),
    ("LISTEN", "127.0.0.1:http", "host:port"),
    ("LISTEN", "http://127.0.0.1:80", "host:port"),
    ("LISTEN", " 127.0.0.1:80", "blanks"),
    ("LISTEN", "127.0.0.1:80\n", "blanks"),
    ("EVENTS_PATH", "aap/events", "leading slash"),
    ("EVENTS_PATH", "/aap/events/", "no trailing one"),
    ("EVENTS_PATH", "//aap", "leading slash"),
    ("EVENTS_PATH", "/aap/../x", "leading slash"),
    ("EVENTS_PATH", "/aap?x=1", "no query"),
    ("EVENTS_PATH", "/aap/{name}", "letters"),
    ("CONTROL", "0.0.0.0:9000", "loopback"),
    ("CONTROL", "harness.example:9000", "loopback"),
    ("CONTROL", "127.0.0.1:0", "port of its own"),
    ("CONTROL", "127.0.0.1:", "host:port"),
    ("CONTROL", "unix:/run/w.sock", "plain socket path"),
    ("CONTROL", "/run/" + "x" * 103, "107 bytes"),
    ("CONTROL", "/tmp", "not a directory"),
    ("RECEIVER_KEY_FILE", "", "is empty"),
    ("RECEIVER_KEY_FILE", "~/receiver.key", "not expanded"),
    ("RECEIVER_KEY_FILE", "keys/", "not a directory"),
    ("WORKER_KEY_FILE", "receiver.key", "keys of its own"),
    ("WORKER_KEY_FILE", "./receiver.key", "keys of its own"),
    ("RECEIVER_KEY_FILE", "worker.key", "keys of its own"),
    ("TOOLS", "", "module names"),
    ("TOOLS", "a,,b", "module names"),
    ("TOOLS", "shop/tools.py", "module names"),
    ("TOOLS", "shop,shop", "twice"),
    ("CONSUMPTION", "sometimes", "auto, always or never"),
    ("RESUMERS", "langgraph", "module:function"),
    ("RESUMERS", "LangGraph=shop:resumer", "framework=module:function"),
    ("RESUMERS", "langgraph=shop:one,langgraph=shop:two", "twice"),
    ("RESUMERS", "langgraph=shop.resumer", "module:function"),
    ("RESUMERS_DIRECTORY", "~/shop", "not expanded"),
    ("RESUMER_SECONDS", "0.5", "from 1 to 604800"),
    ("PROVIDER_LISTEN", "0.0.0.0:8081", "loopback"),
    ("PROVIDER_POLICY_FILE", "policy.toml", "does not exist"),
    ("LOG_FORMAT", "text", "console or json"),
    ("LOG_LEVEL", "INFO", "debug, info, warning or error"),
    ("TLS_CERT_FILE", "cert.pem", "does not exist"),
    ("TLS_KEY_FILE", "key.pem", "does not exist"),
    ("MAX_BODY_BYTES", "1023", "from 1024 to 1048576"),
    ("MAX_BODY_BYTES", "1048577", "from 1024 to 1048576"),
    ("MAX_BODY_BYTES", "64KiB", "whole number"),
    ("MAX_BODY_BYTES", "6_5536", "whole number"),
    ("MAX_BODY_BYTES", "65536.0", "whole number"),
    ("MAX_BODY_BYTES", "٦٥٥٣٦", "whole number"),
    ("MAX_CONNECTIONS", "0", "from 1"),
    ("MAX_CONCURRENCY", "-1", "from 1"),
    ("RATE_LIMIT", "0", "from 1"),
    ("REFUSED_RATE_LIMIT", "unlimited", "whole number"),
    ("REQUEST_TIMEOUT", "0", "over 0 and under 10"),
    ("REQUEST_TIMEOUT", "10", "over 0 and under 10"),
    ("REQUEST_TIMEOUT", "8s", "without a unit"),
    ("REQUEST_TIMEOUT", "nan", "number of seconds"),
    ("REQUEST_TIMEOUT", "inf", "number of seconds"),
    ("REQUEST_TIMEOUT", "1e0", "number of seconds"),
    ("SHUTDOWN_TIMEOUT", "-1", "number of seconds"),
    ("WORKER_CONCURRENCY", "0", "from 1"),
    ("LEASE_SECONDS", "1", "from 2 to 3600"),
    ("LEASE_SECONDS", "3601", "from 2 to 3600"),
    ("RETENTION_DAYS", "7", "from 8"),
    ("SWEEP_SECONDS", "0", "from 0.01"),
]


@each_row(("name", "value", "expected"), WRONG)
def test_a_wrong_setting_stops_the_start_by_its_name(name: str, value: str, expected: str) -> None:
    found = problems(**{name: value})
    assert len(found) == 1
    # Two keys in one file are reported at the worker's.
    named = "WORKER_KEY_FILE" if expected == "keys of its own" else name
    assert found[0].startswith(f"WAKEGATE_{named}: ")
    assert expected in found[0]
    assert found[0].isprintable()
    assert "s3cret" not in found[0]


@each_row(
    "url",
    [
        "postgresql://localhost/x",
        "postgresql:///x",
        "postgresql:///x?host=/run/postgresql&port=5433",
        "postgresql://wakegate@db.example.com:5432/wakegate?sslmode=verify-full&sslrootcert=/etc/ssl/db.pem",
        "postgresql://wakegate@one:5432,two:5432/wakegate?target_session_attrs=read-write",
        "postgresql://wakegate@[::1]:5432/wakegate",
        "postgresql://wakegate@h/w?options=-csearch_path%3Dcalls",
        "postgresql://wakegate@h/w?passfile=/etc/wakegate/pgpass",
        "postgresql://user%3Aname@h/w",
    ],
)
def test_a_url_of_postgresql_is_taken_as_it_is(url: str) -> None:
    assert load_settings(environ={"WAKEGATE_DATABASE": url}).database == url


def test_only_plain_paths_and_tables_have_no_wrong_value_in_this_table() -> None:
    assert set(Settings.model_fields) - {name.lower() for name, _, _ in WRONG} == {
        "wake_secret_file",
        "queue_password_file",
        "provider_key_file",
        "provider_provisioner_token_file",
        "refusals_file",
        "wake",
        "harness",
    }


def test_every_problem_is_reported_at_once(folder: Path) -> None:
    (folder / "wakegate.toml").write_text('lissen = "x"\nmax_connections = true\n')
    found = problems(LISTEN="x", RATE_LIMT="5", LEASE_SECONDS="0")
    assert [line.split(": ")[0:2] for line in found] == [
        ["wakegate.toml", "lissen"],
        ["WAKEGATE_RATE_LIMT", "unknown setting; did you mean WAKEGATE_RATE_LIMIT?"],
        ["WAKEGATE_LISTEN", found[2].split(": ")[1]],
        ["wakegate.toml", "max_connections"],
        ["WAKEGATE_LEASE_SECONDS", found[4].split(": ")[1]],
    ]


def test_the_errors_text_is_one_line_a_problem() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ={"WAKEGATE_LISTEN": "x", "WAKEGATE_QUEUE": "y"})
    assert str(caught.value).splitlines() == list(caught.value.problems)
    assert caught.value.reason == "settings"


@each_row(
    ("misspelt", "meant"),
    [
        ("WAKEGATE_LISTN", "WAKEGATE_LISTEN"),
        ("WAKEGATE_DATABSE", "WAKEGATE_DATABASE"),
        ("WAKEGATE_RECEIVER_KEY", "WAKEGATE_RECEIVER_KEY_FILE"),
        ("WAKEGATE_WAKE_SECRET", "WAKEGATE_WAKE_SECRET_FILE"),
        ("WAKEGATE_CONFG", "WAKEGATE_CONFIG"),
        ("wakegate_listen", "WAKEGATE_LISTEN"),
    ],
)
def test_a_misspelt_variable_is_found_and_the_right_one_suggested(misspelt: str, meant: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ={misspelt: "x"})
    assert caught.value.problems == (f"{misspelt}: unknown setting; did you mean {meant}?",)


def test_a_variable_like_no_setting_is_refused_without_a_suggestion() -> None:
    assert problems(ZZZ="1") == ("WAKEGATE_ZZZ: unknown setting",)


@pytest.mark.parametrize("value", ["0", "-1", "", "5m", "1000000000", "300"])
def test_the_five_minute_tolerance_is_no_setting(folder: Path, value: str) -> None:
    assert problems(TOLERANCE=value)[0].startswith("WAKEGATE_TOLERANCE: unknown setting")
    assert toml_problems(folder, f'tolerance = "{value}"\n')[0].startswith("wakegate.toml: tolerance: unknown setting")


def test_wake_targets_are_not_taken_from_the_environment() -> None:
    found = problems(WAKE="{}")
    assert found[0].startswith("WAKEGATE_WAKE: not taken from the environment")


def test_a_control_character_in_a_variables_name_does_not_reach_the_error() -> None:
    assert problems(**{"X\x1b[2J\nFAKE": "1"})[0].isprintable()


@each_row(
    ("text", "expected"),
    [
        ("lisen = 'x'", "wakegate.toml: lisen: unknown setting; did you mean listen?"),
        ("LISTEN = 'x'", "wakegate.toml: LISTEN: unknown setting; did you mean listen?"),
        ("WAKEGATE_LISTEN = 'x'", "wakegate.toml: WAKEGATE_LISTEN: unknown setting"),
        ("config = 'x'", "wakegate.toml: config: unknown setting"),
        ("listen = 8080", "wakegate.toml: listen: must be text"),
        ("listen =", "wakegate.toml: not TOML: "),
        ("listen = 'a:1'\nlisten = 'b:1'", "wakegate.toml: not TOML: "),
        ("x = " + "[" * 5000, "wakegate.toml: not TOML"),
        ("lease_seconds = " + "9" * 5000, "wakegate.toml: not TOML that can be read"),
        ("max_connections = 1.5", "wakegate.toml: max_connections: must be a whole number"),
        ("max_connections = true", "wakegate.toml: max_connections: must be a whole number"),
        ("request_timeout = nan", "wakegate.toml: request_timeout: must be a number of seconds"),
        ("request_timeout = true", "wakegate.toml: request_timeout: must be a number of seconds"),
        ("receiver_key_file = 5", "wakegate.toml: receiver_key_file: must be text"),
        ("control = 5", "wakegate.toml: control: must be text"),
        ("tools = [5]", "wakegate.toml: tools: must be importable module names"),
        ("tools = 5", "wakegate.toml: tools: must be module names"),
        ("queue = []", "wakegate.toml: queue: must be embedded"),
        ("log_format = 1", "wakegate.toml: log_format: must be console or json"),
        ("wake = 5", "wakegate.toml: wake: must be tables"),
        ("[wake]\nx = 5", "wakegate.toml: wake.x: must be a table"),
        ("[wake.none]\nkind = 'http'\nurl = 'https://a.example/'", "wakegate.toml: wake.none: is built in"),
        ("[wake.x]\nkind = 'none'\nurl = 'https://a.example/'", "wakegate.toml: wake.x.kind: must be http"),
        ("[wake.x]\nkind = 'http'", "wakegate.toml: wake.x.url: is missing"),
        ("[wake.x]\nkind = 'command'", "wakegate.toml: wake.x.argv: is missing"),
        ("[wake.x]\nkind = 'python'", "wakegate.toml: wake.x.entry_point: is missing"),
        ("[wake.x]\nkind = 'shell'", "wakegate.toml: wake.x.kind: must be http, command or python"),
        ("[wake.x]\nkind = 'command'\nargv = '/bin/true'", "wakegate.toml: wake.x.argv: must be a list of texts"),
        ("[wake.x]\nkind = 'command'\nargv = []", "wakegate.toml: wake.x.argv: must be a list of texts"),
        ("[wake.x]\nkind = 'command'\nargv = ['/bin/true', 5]", "wakegate.toml: wake.x.argv: must be a list of texts"),
        ("[wake.x]\nkind = 'command'\nargv = ['true']", "wakegate.toml: wake.x.argv: must begin with the program's"),
        ("[wake.x]\nkind = 'command'\nargv = ['/bin/']", "wakegate.toml: wake.x.argv: must begin with the program's"),
        (
            "[wake.x]\nkind = 'command'\nargv = ['/bin/true', \"a\\u0000b\"]",
            "wakegate.toml: wake.x.argv: has a NUL character in it",
        ),
        (
            "[wake.x]\nkind = 'http'\nurl = 'https://a.example/'\nargv = ['/bin/true']",
            "wakegate.toml: wake.x.argv: does not belong to kind http, only to command",
        ),
        (
            "[wake.x]\nkind = 'http'\nurl = 'https://a.example/'\ntimeout = 5",
            "wakegate.toml: wake.x.timeout: does not belong to kind http",
        ),
        (
            "[wake.x]\nkind = 'command'\nargv = ['/bin/true']\nentry_point = 'a:b'",
            "wakegate.toml: wake.x.entry_point: does not belong to kind command",
        ),
        *(
            (
                f"[wake.x]\nkind = 'command'\nargv = ['/bin/true']\ntimeout = {seconds}",
                "wakegate.toml: wake.x.timeout: must be a number of seconds from 1 to 600",
            )
            for seconds in ("0", "0.5", "601", "true", "'5s'")
        ),
        *(
            (
                f"[wake.x]\nkind = 'python'\nentry_point = '{name}'",
                "wakegate.toml: wake.x.entry_point: must be module:function",
            )
            for name in ("agent", "agent:", ":woken", "agent.py", "agent:woken()", "../agent:woken", "a b:c")
        ),
        (
            "[wake.x]\nkind = 'python'\nentry_point = 'a:b'\ndirectory = '~/agents'",
            "wakegate.toml: wake.x.directory: must be the whole path",
        ),
        ("[wake.x]\nurl = 'https://a.example/'", "wakegate.toml: wake.x.kind: is missing"),
        (
            "[wake.x]\nkind = 'http'\nurl = 'http://a.example/'",
            "wakegate.toml: wake.x.url: must be an https URL",
        ),
        (
            "[wake.x]\nkind = 'http'\nurl = 'https://u:p@a.example/'",
            "wakegate.toml: wake.x.url: must be an https",
        ),
        (
            "[wake.x]\nkind = 'http'\nurl = 'https://a.example/#f'",
            "wakegate.toml: wake.x.url: must be an https",
        ),
        ("[wake.x]\nkind = 'http'\nurl = 7", "wakegate.toml: wake.x.url: must be text"),
        (
            "[wake.x]\nkind='http'\nurl='https://a.example/'\nurll='y'",
            "wakegate.toml: wake.x.urll: unknown setting",
        ),
        ("[wake.X]\nkind='http'\nurl='https://a.example/'", "wakegate.toml: wake.X: must be a name"),
        ("[wake.'']\nkind='http'\nurl='https://a.example/'", "wakegate.toml: wake.: must be a name"),
        (
            "[wake.\"a\\nb\"]\nkind='http'\nurl='https://a.example/'",
            "wakegate.toml: wake.a?b: must be a name",
        ),
        (
            f"[wake.{'x' * 64}]\nkind='http'\nurl='https://a.example/'",
            f"wakegate.toml: wake.{'x' * 64}: must be a name",
        ),
    ],
)
def test_a_wrong_line_in_the_file_is_named_with_the_file(folder: Path, text: str, expected: str) -> None:
    found = toml_problems(folder, text)
    assert len(found) == 1
    assert found[0].startswith(expected)
    assert found[0].isprintable()


def test_a_file_that_is_not_utf8_is_refused(folder: Path) -> None:
    (folder / "wakegate.toml").write_bytes(b"listen = '\xff'")
    assert problems() == ("wakegate.toml: the settings file is not UTF-8",)


def test_a_named_file_must_exist() -> None:
    assert problems(Path("no.toml")) == ("--config: no.toml: the settings file does not exist",)
    assert problems(CONFIG="no.toml") == ("WAKEGATE_CONFIG: no.toml: the settings file does not exist",)


def test_a_named_file_must_not_be_a_directory_or_nothing(folder: Path) -> None:
    assert problems(folder)[0].startswith("--config: ")
    assert problems(CONFIG="") == ("WAKEGATE_CONFIG: is empty; name a file or leave it out",)


def test_a_default_control_socket_that_would_be_too_long_is_refused_at_the_start() -> None:
    found = problems(DATABASE="sqlite:////srv/" + "x" * 90 + "/wakegate.db")
    assert len(found) == 1
    assert found[0].startswith("WAKEGATE_CONTROL: ")


def test_tls_needs_both_files(folder: Path) -> None:
    (folder / "cert.pem").write_text("x")
    (folder / "key.pem").write_text("x")
    both = load_settings(environ={"WAKEGATE_TLS_CERT_FILE": "cert.pem", "WAKEGATE_TLS_KEY_FILE": "key.pem"})
    assert both.tls_cert_file == Path("cert.pem")
    assert "WAKEGATE_TLS_KEY_FILE is not set" in problems(TLS_CERT_FILE="cert.pem")[0]
    assert "WAKEGATE_TLS_CERT_FILE is not set" in problems(TLS_KEY_FILE="key.pem")[0]


@each_row(
    ("name", "secret"),
    [
        ("RECEIVER_KEY_FILE", base64.urlsafe_b64encode(bytes(range(32))).decode()),
        ("WORKER_KEY_FILE", base64.urlsafe_b64encode(bytes(range(200, 232))).decode()),
        ("WAKE_SECRET_FILE", SigningSecret(bytes(range(200, 232))).reveal()),
        ("PROVIDER_PROVISIONER_TOKEN_FILE", "x3Y" * 20),
        ("TLS_KEY_FILE", "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n"),
        ("WAKE_SECRET", "whsec_x"),
        ("SIGNING_SECRET", "whsec_x"),
        ("DATABASE", "postgresql://user:hunter2hunter2@host/x"),
        ("QUEUE", "redis://:hunter2hunter2@host"),
    ],
)
def test_a_secret_pasted_where_a_path_belongs_is_refused_and_not_shown(name: str, secret: str) -> None:
    found = problems(**{name: secret})
    assert len(found) == 1
    assert secret not in found[0]
    assert "hunter2" not in found[0]
    assert not set(re.findall(r"\S{6,}", secret)) & set(re.findall(r"\S{6,}", found[0]))


def test_a_wake_urls_path_is_not_shown(folder: Path) -> None:
    settings = from_toml(folder, "[wake.x]\nkind = 'http'\nurl = 'https://a.example/s3cr3t-path'\n")
    assert "s3cr3t-path" not in repr(settings) + repr(settings.wake_targets) + str(settings)


def test_a_settings_object_made_directly_shows_no_value_in_its_error() -> None:
    with pytest.raises(ValueError) as caught:
        Settings.model_validate({"listen": "s3cr3t"})
    assert "s3cr3t" not in str(caught.value)


def test_a_systemd_credential_serves_where_the_setting_is_unset(folder: Path) -> None:
    for name in ("receiver_key", "worker_key", "wake_secret"):
        (folder / name).write_text("x")
    environ = {"CREDENTIALS_DIRECTORY": str(folder), "WAKEGATE_WORKER_KEY_FILE": "mine.key"}
    settings = load_settings(environ=environ)
    assert settings.receiver_key_path == folder / "receiver_key"
    assert settings.wake_secret_path == folder / "wake_secret"
    assert settings.worker_key_path == Path("mine.key")


def test_a_systemd_credential_goes_over_the_file_that_all_share(folder: Path) -> None:
    (folder / "worker_key").write_text("x")
    (folder / "all.toml").write_text("worker_key_file = '/root/w'\nreceiver_key_file = '/root/r'\n")
    settings = load_settings(folder / "all.toml", {"CREDENTIALS_DIRECTORY": str(folder)})
    assert settings.worker_key_path == folder / "worker_key"
    assert settings.receiver_key_path == Path("/root/r")


def test_a_credential_that_is_not_there_leaves_the_default(folder: Path) -> None:
    settings = load_settings(environ={"CREDENTIALS_DIRECTORY": str(folder)})
    assert settings.receiver_key_path == Path("receiver.key")


def test_settings_cannot_be_changed() -> None:
    settings = load_settings(environ={})
    with pytest.raises(ValueError):
        settings.lease_seconds = 5
    with pytest.raises(TypeError):
        settings.wake_targets["x"] = settings.wake_targets["none"]  # type: ignore[index]


def test_constructing_settings_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEGATE_LEASE_SECONDS", "77")
    assert Settings().lease_seconds == 30
    assert load_settings().lease_seconds == 77
