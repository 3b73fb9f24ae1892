"""Notices: what providers deliver, in every way that a receiver meets, and how each must be answered."""

import asyncio
import json
from dataclasses import dataclass

from model.approver import Request, event_id
from model.jobs import Fate
from model.reference import Signer
from model.world import World

from support.deliveries import Delivery, Sender
from wakegate_schema import timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.signing import SigningSecret

SKEWS = {"late": -301, "early": 301}


@dataclass(frozen=True, repr=False)
class Notice:
    """One event of one provider, and a registration it can be signed for."""

    signer: Signer
    request: Request

    def __repr__(self) -> str:
        provider, registration = self.signer.instance[0], self.signer.registration_id
        return f"<notice of {self.request!r} at {provider} under {registration[:8]}>"


def deliverable(world: World, *, again: bool = True) -> list[Notice]:
    """Every event there is, under every registration of its instance: those that did not arrive, and others again."""
    found = [
        Notice(signer, request)
        for signer in world.reference.signers
        for request in world.approvers[signer.instance[0]].decided()
        if request.instance_id == signer.instance[1]
    ]
    events = world.reference.events
    new = [one for one in found if (one.signer.instance[0], event_id(one.request)) not in events]
    return found + new * 4 if again else new


async def deliver(world: World, notice: Notice, how: str, fate: Fate = Fate.GO) -> list[str]:
    """Deliver an event and return what is wrong with the answers."""
    if how == "verify":
        return await _verify(world, notice.signer)
    signer, request = notice.signer, notice.request
    named = "00000000-0000-4000-8000-ffffffffffff" if how == "other request" else request.request_id
    skew = SKEWS.get(how, 0)
    secret = SigningSecret.generate().reveal() if how == "forged" else signer.secret
    delivery = _delivery(secret, request, named, world.at + skew * SECOND, spaced=how == "other bytes")
    event = (signer.instance[0], event_id(request))
    expected = world.reference.answer(None if how == "forged" else signer, event, named, skew)
    if how == "twice at once":
        answers = list(await asyncio.gather(world.door.post(delivery), world.door.post(delivery)))
    else:
        reaches_store = how != "forged" and not skew and world.reference.live(signer)
        world.lines["receiver"].next = fate if reaches_store else Fate.GO
        if reaches_store and fate is not Fate.GO:
            expected = _faulty(expected, fate, world, signer, event, named, delivery.body)
        answers = [await world.door.post(delivery)]
    if expected == 204:
        world.reference.stored(signer, event, named, delivery.body, acknowledged=True)
    wrong = [answer for answer in answers if answer != expected]
    return [f"{how}: {event[1]} was answered {wrong[0]} and not {expected}"] if wrong else []


def _faulty(
    expected: int, fate: Fate, world: World, signer: Signer, event: tuple[str, str], named: str, body: bytes
) -> int:
    """What is answered when the store fails; what was committed all the same is there."""
    if expected == 204 and fate is not Fate.REFUSED:
        world.reference.stored(signer, event, named, body, acknowledged=False)
    return 503


def _delivery(secret: str, request: Request, named: str, at: int, *, spaced: bool) -> Delivery:
    body = {
        "id": event_id(request),
        "type": "request.resolved",
        "instance_id": request.instance_id,
        "request_id": named,
        "created_at": timestamps.render(request.decided_at or 0),
    }
    text = json.dumps(body, separators=(", ", " : ")) if spaced else json.dumps(body)
    return Sender(secret, request.instance_id).raw(text.encode(), body["id"], at=at // SECOND)


async def _verify(world: World, signer: Signer) -> list[str]:
    """A provider challenges a registration again: one that is taken answers, a superseded or retired one does not."""
    delivery = Sender(signer.secret, signer.instance[1]).verification(signer.registration_id, at=world.at / SECOND)
    over = signer.retired_at is not None or (signer.superseded_until or world.at + 1) <= world.at
    expected = {403, 401} if over else {200}
    answer = await world.door.post(delivery)
    return [] if answer in expected else [f"a challenge was answered {answer}"]
