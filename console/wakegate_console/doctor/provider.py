"""The providers: reachable, trusted, and taking the credentials they gave."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from wakegate_console.doctor import certificates
from wakegate_console.doctor.asking import Asked
from wakegate_console.doctor.check import Check
from wakegate_console.doctor.finding import Said, note, ok, problem, warning
from wakegate_console.doctor.settings import proxies
from wakegate_console.doctor.site import Site
from wakegate_console.text import printable
from wakegate_worker.outbound import PROBLEMS

SLOW_S: Final = 2.0
"""An answer that takes longer is warned of, seconds."""


async def reach(site: Site) -> list[Said]:
    """Say of each provider whether it answers, and how quickly."""
    said: dict[str, Said] = {}
    for each in await site.asked():
        found = judge_reach(each)
        if each.provider not in said or found.verdict != "ok":
            said[each.provider] = found
    return list(said.values())


def judge_reach(asked: Asked) -> Said:
    """Say whether a provider was reached, whatever it thinks of the credential."""
    provider = printable(asked.provider)
    if asked.failure is not None:
        return problem(
            f"{provider} is not reached: {PROBLEMS.get(asked.failure, asked.failure)}",
            _UNREACHED.get(asked.failure, "look at the network between here and there"),
        )
    if 300 <= asked.status < 400:
        return problem(
            f"{provider} redirects ({asked.status}), which is never followed",
            "its base URL is another: provision or import the instance under that",
        )
    if asked.status == 429:
        return note(f"{provider} asks to be left alone for now (429)", "ask again later")
    if asked.status >= 500:
        return problem(
            f"{provider} answers with {asked.status}", "tell its operator; calls are tried again by themselves"
        )
    if asked.seconds > SLOW_S:
        return warning(f"{provider} takes {asked.seconds:.1f} s to answer", "look at the network, or tell its operator")
    return ok(f"{provider} answers in {asked.seconds * 1000:.0f} ms")


async def credential(site: Site) -> list[Said]:
    """Say of each instance whether its provider takes its credential."""
    asked = await site.asked()
    said = [said for each in asked for said in judge_credential(each)]
    if asked and site.worker_key is None:
        said.append(note("some credentials were not tried", "run this as a user that may read the worker's key"))
    return said


def judge_credential(asked: Asked) -> Iterator[Said]:
    """Say whether a credential was taken: then the provider does not know the request (404)."""
    if asked.instance is None or asked.failure is not None:
        return
    name, provider = printable(asked.instance), printable(asked.provider)
    if asked.status in (401, 403):
        yield problem(
            f"{name}: {provider} refuses its credential ({asked.status})",
            f"get a new one: wakegate instance credential {name} --credential-file FILE",
        )
    elif asked.status == 404 and asked.code is not None:
        yield ok(f"{name}: {provider} takes its credential")
    elif asked.status < 300 or asked.status == 404 or (400 <= asked.status < 500 and asked.status != 429):
        yield problem(
            f"{name}: what answers at {provider} ({asked.status}) does not answer as an approval provider",
            "the base URL is wrong, or something stands in front of the provider",
        )


async def certificate(site: Site) -> list[Said]:
    """Judge the providers' certificates."""
    found = {each.provider: each.certificate for each in await site.asked() if each.certificate is not None}
    return [
        certificates.judge(each, urlsplit(provider).netloc, site.now, "The worker") for provider, each in found.items()
    ]


def proxy(site: Site) -> Iterator[Said]:
    """Tell of a proxy in the environment, which wakegate does not use."""
    if names := proxies(site.environ):
        yield note(
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} set, and wakegate does not use it",
            "the worker must reach providers and wake targets directly",
        )


CHECKS: Final = (
    Check("provider.reach", reach, network=True, limit_s=30.0),
    Check("provider.credential", credential, network=True, limit_s=30.0),
    Check("provider.certificate", certificate, network=True, limit_s=30.0),
    Check("provider.proxy", proxy),
)

_UNREACHED: Final = {
    "dns": "correct this machine's name servers, or the base URL",
    "connection_refused": "start the provider, or correct the base URL",
    "timeout": "open the way to it in the firewall",
    "tls": "provider.certificate says what is wrong with it",
}
