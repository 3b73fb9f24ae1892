"""The creation of an instance at its provider: `POST /v1/instances`."""

from dataclasses import dataclass, field

from wakegate_console.provisioner import MAX_ANSWER, OTHERWISE, Call, ask_once_ready, malformed
from wakegate_console.waiting import Wait
from wakegate_schema import wire
from wakegate_schema.sealing import BearerToken


@dataclass(frozen=True, slots=True)
class Creation:
    """An instance to be created; sent again, it is the same creation."""

    provider: str
    """Canonical base URL."""
    token: BearerToken = field(repr=False)
    idempotency_key: str
    body: wire.NewInstance = field(repr=False)
    store: str
    """The store's name (`StoreLocation.name`), to be told where the receiver may use another."""


async def create_once_ready(creation: Creation, wait: Wait) -> wire.ProvisionedInstance:
    """Ask for the instance, again while provider or receiver do not listen yet: it is the same submission each time.

    Raises:
        CallFailed: the provider did not answer, or refused, or the time is up.
    """
    call = Call(
        provider=creation.provider,
        token=creation.token,
        method="POST",
        path="/v1/instances",
        advice=_ADVICE,
        idempotency_key=creation.idempotency_key,
        body=wire.object_bytes(creation.body),
        url=creation.body.delivery.url if creation.body.delivery else "-",
        store=creation.store,
    )
    answer = await ask_once_ready(call, wait, good=(200, 201))
    try:
        return wire.parse_object(wire.ProvisionedInstance, answer.body, max_bytes=MAX_ANSWER)
    except wire.MalformedObject as error:
        raise malformed(call, error) from None


_ADVICE = {
    404: "there is no AAP provider at this base URL; check --provider-url",
    409: "another creation has this key; retire this registration and provision under another name",
    OTHERWISE: "it does not accept this instance; check --name and --url",
}
