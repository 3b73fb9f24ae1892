"""The public URL of each live registration: does a provider's message come through it as it was sent?"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from wakegate_console.doctor import certificates
from wakegate_console.doctor.check import Check
from wakegate_console.doctor.finding import Said, note, ok, problem, warning
from wakegate_console.doctor.posting import Delivered, Reply, passes
from wakegate_console.doctor.site import Site
from wakegate_console.text import describe, printable
from wakegate_receiver.answers import UNAUTHENTICATED
from wakegate_schema.urls import is_loopback
from wakegate_worker.outbound import PROBLEMS

SLOW_S: Final = 3.0
"""An answer that takes longer is warned of, seconds."""


def form(site: Site) -> Iterator[Said]:
    """Judge the URLs as they are written."""
    for registration in site.live:
        if registration.url is None:
            yield note(
                f"{registration.name} was imported, so its URL is not known here and is not tried",
                "name it once with `wakegate instance rotate --url`, or try it yourself",
            )
            continue
        yield judge_form(registration.name, registration.url, site.settings.events_path, registration.provider)


def judge_form(name: str, url: str, events_path: str, provider: str) -> Said:
    """Say whether a URL is one that its provider can deliver to, and fits the receiver's path."""
    parts = urlsplit(url)
    path = parts.path or "/"
    near = is_loopback(parts.hostname or "")
    if near and not is_loopback(urlsplit(provider).hostname or ""):
        return problem(
            f"{name}: {plain(url)} leads to this very machine, and {printable(provider)} is elsewhere",
            _rotate(name, "a public URL"),
        )
    if parts.scheme != "https" and not near:
        return problem(f"{name}: {plain(url)} is not https", _rotate(name, "an https URL"))
    if path == events_path:
        return ok(f"{name}: {plain(url)} leads to {events_path}")
    if path.rstrip("/") == events_path.rstrip("/"):
        return warning(
            f"{name}: the path of {plain(url)} is {events_path} but for its trailing slash",
            _rotate(name, "the exact path") + ", unless a proxy sees to it (then url.delivery is ok)",
        )
    return note(
        f"{name}: the path of {plain(url)} is not {events_path} (WAKEGATE_EVENTS_PATH)",
        "a proxy has to map the one to the other; url.delivery says whether it does",
    )


async def tls(site: Site) -> list[Said]:
    """Judge the certificates that the URLs' hosts show."""
    said = {}
    for each in await site.delivered():
        host = urlsplit(each.url).netloc
        if each.certificate is not None:
            said[host] = certificates.judge(each.certificate, host, site.now, "The provider")
        elif each.public.failure == "tls":
            said[host] = problem(f"TLS with {host} fails before a certificate is shown", "serve TLS 1.2 or later there")
    return list(said.values())


async def delivery(site: Site) -> list[Said]:
    """Judge what became of the messages that were sent."""
    return [said for each in await site.delivered() for said in judge(each, site.settings.events_path)]


def listen(site: Site) -> Iterator[Said]:
    """Look at the receiver's own address: whether it takes messages from elsewhere without TLS."""
    where, settings = site.settings.listen, site.settings
    if is_loopback(where.host) or settings.tls_cert_file is not None:
        kind = "with TLS" if settings.tls_cert_file is not None else "on this machine alone"
        yield ok(f"the receiver listens at {where}, {kind}")
    else:
        yield note(
            f"the receiver listens at {where} without TLS",
            "have a proxy in front of it bring TLS, and let nobody but the proxy reach this port",
        )


def certificate(site: Site) -> Iterator[Said]:
    """Look at the certificate that the receiver itself serves."""
    path = site.settings.tls_cert_file
    if path is None:
        return
    try:
        served = certificates.of_file(path)
    except (OSError, ValueError) as error:
        yield problem(f"WAKEGATE_TLS_CERT_FILE cannot be read: {describe(error)}", "put a PEM chain there")
        return
    yield certificates.judge(served, f"{path} (WAKEGATE_TLS_CERT_FILE)", site.now)


CHECKS: Final = (
    Check("url.form", form),
    Check("url.listen", listen),
    Check("url.certificate", certificate),
    Check("url.tls", tls, network=True, limit_s=40.0),
    Check("url.delivery", delivery, network=True, limit_s=40.0),
)


def judge(found: Delivered, events_path: str) -> Iterable[Said]:
    """Say what the answers mean."""
    subject = f"{found.registration.name}: {plain(found.url)}"
    public = found.public
    if passes(public, signed=found.signed):
        yield _passes(found, subject)
        return
    what, do = _failure(public.failure) if public.failure is not None else _answer(found, events_path)
    sibling = found.sibling
    if sibling is not None and passes(sibling, signed=found.signed):
        slash = "without its trailing slash" if urlsplit(found.url).path.endswith("/") else "with a trailing slash"
        do = f"{slash} it works: {_rotate(found.registration.name, 'that URL')}"
    yield problem(f"{subject} {what}", do)


def _passes(found: Delivered, subject: str) -> Said:
    seconds = found.public.seconds
    if not found.signed:
        return note(
            f"{subject} leads to the receiver; whether bodies come through unchanged is not known",
            "run this as a user that may read the receiver's key",
        )
    if seconds > SLOW_S:
        return warning(
            f"{subject} answers rightly, but only after {seconds:.1f} s",
            "find out what is slow on the way, before a provider gives up on it",
        )
    return ok(f"{subject} answers a signed message rightly ({seconds * 1000:.0f} ms); one was sent")


def _failure(failure: str) -> tuple[str, str]:
    """Return what it means that no answer came, and what to do."""
    advice = {
        "dns": "publish the host's name",
        "connection_refused": "start what listens there: a proxy, or the receiver itself",
        "timeout": "open the way to it, or find out what holds bodies up. Some networks cannot reach their own public"
        " address from inside: then try from elsewhere",
        "tls": "url.tls says what is wrong with it",
    }.get(failure, "look at the log of the proxy there")
    return f"gives no answer: {PROBLEMS.get(failure, failure)}", advice


def _answer(found: Delivered, events_path: str) -> tuple[str, str]:
    """Return what an answer other than the right one means, and what to do."""
    public = found.public
    if 300 <= public.status < 400:
        return _redirect(found)
    if public.reason is not None:
        return _from_receiver(found, public.reason, events_path)
    if 200 <= public.status < 300:
        return (
            f"is answered with {public.status} by something that is not this receiver",
            "have the proxy pass this path on to the receiver, method and body unchanged",
        )
    return _from_between(public, events_path)


def _redirect(found: Delivered) -> tuple[str, str]:
    where = f" to {printable(found.public.location)}" if found.public.location else ""
    return (
        f"is redirected{where} ({found.public.status}), which no provider follows",
        f"have the proxy take the URL as it is, or {_rotate(found.registration.name, 'the one it leads to')}",
    )


def _from_receiver(found: Delivered, reason: str, events_path: str) -> tuple[str, str]:
    """Return what a receiver's own refusal means: of this one, or of another."""
    says = f"is refused by a receiver with {found.public.status} {reason}"
    if reason == UNAUTHENTICATED:
        return _unproved(says, found.local)
    if reason.startswith("missing_webhook"):
        return says, "have the proxy pass the webhook-id, webhook-timestamp and webhook-signature headers on"
    if reason in _OF_REGISTRATIONS:
        return says, _OTHER_RECEIVER
    if found.public.status in (429, 503):
        return says, "the receiver is overloaded, stopping or without its store; store.receiver and its log say more"
    changed = "something on the way changes the message; docs/answers.md explains the reason"
    return says, _CHANGED.get(reason, changed).format(events_path)


def _unproved(says: str, local: Reply | None) -> tuple[str, str]:
    """Return what a 401 means, beside what the local listener answers to the same message."""
    if local is not None and local.challenged:
        return (
            f"{says}, and the local one takes such a message: something on the way rewrites the body or its headers",
            "have the proxy pass the body's bytes and the webhook-… headers on unchanged: no JSON rewriting, no"
            " character set, no compression",
        )
    if local is not None and local.status == 401:
        return f"{says}, and so it is by the local one", _OTHER_RECEIVER
    return says, f"either something on the way rewrites bodies, or {_OTHER_RECEIVER}"


def _from_between(public: Reply, events_path: str) -> tuple[str, str]:
    """Return what an answer means that no receiver wrote."""
    says = f"is answered with {public.status} by something before the receiver"
    return says, _BETWEEN.get(public.status, f"look at the log of the proxy there; it must pass POST {events_path} on")


_OTHER_RECEIVER: Final = (
    "the receiver there uses another store or key, or its clock is more than 300 s off: see that the URL leads to this"
    " installation, and restart the receiver after changing its settings"
)
_CHANGED: Final[Mapping[str, str]] = {
    "wrong_path": "the path arrives changed: the proxy must pass it on as {} (WAKEGATE_EVENTS_PATH)",
    "wrong_method": "the method arrives changed: the proxy must pass POST on as POST",
    "body_too_large": "raise WAKEGATE_MAX_BODY_BYTES, to its default at least",
    "wrong_content_type": "the proxy changes Content-Type: have it pass that on",
    "wrong_charset": "the proxy adds a character set to Content-Type: have it pass that on as it is",
    "wrong_content_encoding": "the proxy compresses the body: switch that off for this path",
    "request_timeout": "the proxy holds the body back: switch its slow sending off for this path",
}
"""What to do about a refusal that only a change on the way can cause; `{}` is the events path."""
_OF_REGISTRATIONS: Final = frozenset(
    {"unknown_registration", "registration_retired", "registration_superseded", "registration_expired"}
    | {"bound_to_other_instance", "instance_bound_elsewhere"}
)
_BETWEEN: Final = {
    401: "a proxy asks for a login: let POSTs to this path through without one, they are signed",
    403: "a proxy or firewall forbids it: let POSTs to this path through",
    404: "the proxy has no route for this path: pass it on to the receiver",
    405: "the proxy does not let POST through on this path",
    408: "the proxy gave up on the body: raise its time limit",
    411: "the proxy wants a Content-Length, and something removes it",
    413: "the proxy's limit on bodies is too low: 64 KiB is what AAP's messages may need",
    415: "the proxy or a firewall lets application/json not through",
    429: "the proxy limits the rate: raise the limit for this path",
    500: "look at the log of the proxy there",
    502: "the proxy cannot reach the receiver: see its upstream address, and WAKEGATE_LISTEN",
    503: "the proxy has no receiver to pass it on to: see its upstream address, and that the receiver runs",
    504: "the receiver did not answer the proxy in time: see its upstream address, and the receiver's log",
}


def plain(url: str) -> str:
    """Return a URL for people: without its query, which may be nobody else's business."""
    return printable(url.partition("?")[0])


def _rotate(name: str, what: str) -> str:
    return f"register {what}: wakegate instance rotate {printable(name)} --url URL --provisioner-token-file FILE"
