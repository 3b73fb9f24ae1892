"""URLs: HTTPS or loopback, one canonical form, nothing disguised."""

import pytest

from support.tables import each_row
from wakegate_schema import urls
from wakegate_schema.urls import MalformedUrl


@each_row(
    ("text", "canonical"),
    [
        ("https://provider.example", "https://provider.example"),
        ("https://provider.example/", "https://provider.example"),
        ("HTTPS://Provider.EXAMPLE:443/Prefix/", "https://provider.example/Prefix"),
        ("https://provider.example:8443/a/b", "https://provider.example:8443/a/b"),
        ("https://provider.example:08443", "https://provider.example:8443"),
        ("https://xn--bcher-kva.example/a%20b", "https://xn--bcher-kva.example/a%20b"),
        ("https://192.0.2.1/aap", "https://192.0.2.1/aap"),
        ("https://[2001:DB8:0:0::1]/aap", "https://[2001:db8::1]/aap"),
        ("http://127.0.0.1:8081/", "http://127.0.0.1:8081"),
        ("http://127.3.2.1:80", "http://127.3.2.1"),
        ("http://LOCALHOST:8081", "http://localhost:8081"),
        ("http://[::1]:8081", "http://[::1]:8081"),
    ],
)
def test_a_base_url_has_one_form(text: str, canonical: str) -> None:
    assert urls.base_url(text) == canonical
    assert urls.base_url(canonical) == canonical


DISGUISED = [
    "",
    "provider.example",
    "//provider.example",
    "ftp://provider.example",
    "file:///etc/passwd",
    "https://",
    "https:///path",
    "https:/provider.example",
    "https:provider.example",
    "https://user@provider.example",
    "https://user:word@provider.example",
    "https://@provider.example",
    "https://provider.example#",
    "https://provider.example/#a",
    "https://provider.example\\@evil.example",
    "https://provider.example\n",
    " https://provider.example",
    "https://provider.example/a b",
    "https://provider.example/\x00",
    "https://bücher.example",
    "https://provider.example:",
    "https://provider.example:0",
    "https://provider.example:65536",
    "https://provider.example:+80",
    "https://provider.example:x",
    "https://-a.example",
    "https://a..example",
    "https://provider.example.",
    "https://.example",
    "https://a_b.example",
    "https://127.1",
    "https://2130706433",
    "https://0x7f000001",
    "https://0x7f.1",
    "https://127.0.0.01",
    "https://256.0.0.1",
    "https://1.2.3.4.5",
    "https://[::1",
    "https://[::1]evil.example",
    "https://[::1].evil.example",
    "https://[127.0.0.1]",
    "https://[fe80::1%25eth0]",
    "https://::1",
    "https://provider.example/a/../b",
    "https://provider.example/./a",
    "https://provider.example/..",
    "https://provider.example//a",
    "https://provider.example/a//b",
    "https://provider.example/%2e%2E/a",
    "https://provider.example/a%2Fb",
    "https://provider.example/a%5cb",
    "https://provider.example/a%00",
    "https://provider.example/a%",
    "https://provider.example/a%zz",
    "https://" + "a" * 64 + ".example",
    "https://provider.example/" + "a" * 2048,
]


@each_row("text", DISGUISED)
def test_a_malformed_or_disguised_url_is_refused_everywhere(text: str) -> None:
    for check in (urls.base_url, urls.webhook_url):
        with pytest.raises(MalformedUrl) as refused:
            check(text)
        assert refused.value.reason == "bad_url"


@pytest.mark.parametrize("text", ["https://provider.example?", "https://provider.example/a?b=c"])
def test_a_base_url_has_no_query(text: str) -> None:
    with pytest.raises(MalformedUrl):
        urls.base_url(text)


@each_row(
    "text",
    [
        "http://provider.example",
        "http://10.0.0.1",
        "http://0.0.0.0",
        "http://128.0.0.1",
        "http://localhost.example",
        "http://127.0.0.1.example",
        "http://[::ffff:127.0.0.1]",
        "http://[::]",
        "http://[::2]",
    ],
)
def test_plain_http_stays_on_this_machine(text: str) -> None:
    for check in (urls.base_url, urls.webhook_url):
        with pytest.raises(MalformedUrl) as refused:
            check(text)
        assert refused.value.reason == "not_https"


@pytest.mark.parametrize(
    "text",
    [
        "https://Hooks.example/aap/events?tenant=7",
        "http://127.0.0.1:8080/aap/events",
        "https://hooks.example",
    ],
)
def test_a_webhook_url_is_kept_as_it_was_written(text: str) -> None:
    assert urls.webhook_url(text) == text


@each_row("host", ["localhost", "LocalHost", "127.0.0.1", "127.255.255.254", "::1", "[::1]", "0::1"])
def test_loopback_is_recognised(host: str) -> None:
    assert urls.is_loopback(host)


@each_row(
    "host",
    [
        "",
        "localhost.",
        "localhost.localdomain",
        "a.localhost",
        "126.255.255.255",
        "128.0.0.1",
        "0.0.0.0",
        "127.1",
        "127.0.0.01",
        "2130706433",
        "::",
        "::ffff:127.0.0.1",
        "::1%lo",
        "[127.0.0.1",
        "1::",
    ],
)
def test_everything_else_is_not_loopback(host: str) -> None:
    assert not urls.is_loopback(host)
