"""The provider's operations over HTTP: who may call what, and with which headers and fields."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web

from wakegate_provider import consumption, instances, requests
from wakegate_provider.bell import heard
from wakegate_provider.delivery import Courier
from wakegate_provider.model import StoredRequest
from wakegate_provider.outgoing import loopback_url
from wakegate_provider.policy import Policy
from wakegate_provider.problems import Problem, missing
from wakegate_provider.server import Reply, read_body
from wakegate_provider.store import StoreThread
from wakegate_provider.updates import Updating
from wakegate_provider.waiting import Herald
from wakegate_schema import ids, strict_json, wire
from wakegate_schema.clock import now
from wakegate_schema.sealing import BearerToken, MalformedCredential
from wakegate_schema.store.errors import StoreUnavailable

MAX_KEY = 255
"""The longest idempotency key."""

MAX_NAME = 200
"""The longest name of an instance."""

M = TypeVar("M", bound=wire.WireModel)
Operation = Callable[[web.BaseRequest, str], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Api:
    """The operations of AAP version 1 that this provider has."""

    store: StoreThread
    policy: Policy
    provisioning: instances.Provisioning
    updating: Updating
    herald: Herald
    courier: Courier
    provisioner_token: BearerToken

    async def __call__(self, request: web.BaseRequest) -> Reply:
        """Answer one request.

        Raises:
            Problem: whatever is refused.
        """
        operation, item = self._operation(request)
        try:
            return await operation(request, item)
        except StoreUnavailable as error:
            raise Problem(
                503, error.reason, "The provider's store cannot be used now; try again.", retry_after=2
            ) from error

    def _operation(self, request: web.BaseRequest) -> tuple[Operation, str]:
        """Return what the method and path name, with the id in the path or an empty text."""
        found = _PATH.fullmatch(request.path)
        operations = self._operations().get(_shape(found)) if found else None
        if found is None or operations is None:
            raise Problem(404, "not_found", "There is no such path.")
        if request.method not in operations:
            raise Problem(
                405,
                "method_not_allowed",
                "This path does not have this method.",
                headers={"Allow": ", ".join(sorted(operations))},
            )
        return operations[request.method], found["item"] or ""

    def _operations(self) -> Mapping[str, Mapping[str, Operation]]:
        """Return the methods of each path; an older provider has no consumption."""
        operations: dict[str, Mapping[str, Operation]] = {
            "instances": {"POST": self._create_instance},
            "instances/{id}": {
                "GET": self._read_instance,
                "PATCH": self._update_instance,
                "DELETE": self._delete_instance,
            },
            "requests": {"POST": self._create_request},
            "requests/{id}": {"GET": self._read_request, "DELETE": self._cancel_request},
        }
        if self.policy.consumption:
            operations["requests/{id}/consume"] = {"POST": self._consume}
            operations["requests/{id}/outcome"] = {"POST": self._report}
        return operations

    async def _create_instance(self, request: web.BaseRequest, _: str) -> Reply:
        await self._provisioner(request)
        key = _idempotency_key(request)
        submitted = _parsed(wire.NewInstance, await read_body(request))
        _check(submitted)
        provisioned = await self.provisioning.create(key, submitted)
        return Reply(201 if provisioned.created else 200, provisioned.body())

    async def _read_instance(self, request: web.BaseRequest, item: str) -> Reply:
        await self._provisioner(request)
        instance = await self.store(instances.read, _id(item, "instance"))
        return Reply(200, wire.object_bytes(instances.view(instance)))

    async def _update_instance(self, request: web.BaseRequest, item: str) -> Reply:
        await self._provisioner(request)
        key = _idempotency_key(request)
        submitted = _parsed(wire.InstanceUpdate, await read_body(request))
        _check(submitted)
        result = await self.updating.update(_id(item, "instance"), key, submitted)
        return Reply(200, result)

    async def _delete_instance(self, request: web.BaseRequest, item: str) -> Reply:
        await self._provisioner(request)
        instance_id = _id(item, "instance")
        await self.store(instances.delete, instance_id, now())
        self.courier.end(instance_id)
        return Reply(204)

    async def _create_request(self, request: web.BaseRequest, _: str) -> Reply:
        instance_id = await self._instance(request)
        key = _idempotency_key(request)
        submission = wire.object_bytes(_parsed(wire.NewRequest, await read_body(request)))
        stored, created = await self.store(requests.create, self.policy, instance_id, key, submission, now())
        return Reply(201 if created else 200, _shown(stored))

    async def _read_request(self, request: web.BaseRequest, item: str) -> Reply:
        seconds = _wait(request)
        instance_id = await self._instance(request)
        request_id = _id(item, "request")
        stored = await self.store(requests.read, instance_id, request_id, now())
        if stored.status == "pending" and seconds > 0:
            stored = await self._awaited(instance_id, request_id, seconds)
        return Reply(200, _shown(stored))

    async def _awaited(self, instance_id: str, request_id: str, seconds: int) -> StoredRequest:
        """Return the request when it is decided, or as it is when the seconds have passed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with self.herald.waiting(request_id) as event:
            while True:
                stored = await self.store(requests.read, instance_id, request_id, now())
                if stored.status != "pending" or loop.time() >= until or self.herald.closing:
                    return stored
                await heard(event, until - loop.time())

    async def _cancel_request(self, request: web.BaseRequest, item: str) -> Reply:
        instance_id = await self._instance(request)
        stored = await self.store(requests.cancel, instance_id, _id(item, "request"), now())
        return Reply(200, _shown(stored))

    async def _consume(self, request: web.BaseRequest, item: str) -> Reply:
        instance_id = await self._instance(request)
        key = _idempotency_key(request)
        if request.body_exists:
            _parsed(consumption.NewConsumption, await read_body(request))
        stored = await self.store(consumption.consume, instance_id, _id(item, "request"), key, now())
        return Reply(200, _shown(stored))

    async def _report(self, request: web.BaseRequest, item: str) -> Reply:
        instance_id = await self._instance(request)
        told = _parsed(wire.NewOutcome, await read_body(request))
        stored = await self.store(consumption.report, instance_id, _id(item, "request"), told, now())
        return Reply(200, _shown(stored))

    async def _provisioner(self, request: web.BaseRequest) -> None:
        """Let only the provisioner pass; an instance is told apart from a stranger (AAP, trust)."""
        token = _bearer(request)
        if token == self.provisioner_token:
            return
        if await self.store(instances.by_credential, token) is not None:
            raise Problem(403, "not_the_provisioner", "An instance credential does not manage instances.")
        raise _stranger()

    async def _instance(self, request: web.BaseRequest) -> str:
        """Return the id of the instance whose credential this is."""
        token = _bearer(request)
        instance = await self.store(instances.by_credential, token)
        if instance is not None:
            return instance.instance_id
        if token == self.provisioner_token:
            raise Problem(403, "not_an_instance", "The provisioner token does not submit or read requests.")
        raise _stranger()


_PATH = re.compile(r"/v1/(?P<collection>instances|requests)(?:/(?P<item>[^/]+)(?P<verb>/[a-z]+)?)?")
_KEY = re.compile(rf"[\x21-\x7e]{{1,{MAX_KEY}}}")
_WAIT = re.compile(r"([1-9][0-9]{0,18})([smh])")


def _shape(path: re.Match[str]) -> str:
    """Return a path as `_operations` has it."""
    return path["collection"] + ("/{id}" if path["item"] is not None else "") + (path["verb"] or "")


def _bearer(request: web.BaseRequest) -> BearerToken:
    values = request.headers.getall("Authorization", [])
    scheme, _, text = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    if scheme.lower() != "bearer":
        raise _stranger()
    try:
        return BearerToken(text)
    except MalformedCredential:
        raise _stranger() from None


def _stranger() -> Problem:
    return Problem(401, "invalid_credential", "Send one valid credential as Authorization: Bearer.")


def _idempotency_key(request: web.BaseRequest) -> str:
    values = request.headers.getall("Idempotency-Key", [])
    if not any(values):
        raise Problem(400, "missing_idempotency_key", "Send an Idempotency-Key.", param="Idempotency-Key")
    if len(values) != 1 or _KEY.fullmatch(values[0]) is None:
        raise Problem(
            400,
            "invalid_idempotency_key",
            f"Send one Idempotency-Key of at most {MAX_KEY} visible ASCII characters.",
            param="Idempotency-Key",
        )
    return values[0]


def _id(item: str, what: str) -> str:
    """Return a path's UUID in its canonical form; another form names nothing."""
    try:
        return ids.parse(item)
    except ids.MalformedId as error:
        raise missing(what) from error


def _wait(request: web.BaseRequest) -> int:
    """Return how long a read may wait, in seconds, at most `MAX_WAIT_S`; 0 when it did not ask to wait."""
    values = request.query.getall("wait", [])
    if not values:
        return 0
    found = _WAIT.fullmatch(values[0])
    if len(values) != 1 or found is None:
        raise Problem(400, "invalid_wait", "Give wait once, as a duration like 30s.", param="wait")
    return wire.MAX_WAIT_S if found[2] != "s" else min(int(found[1]), wire.MAX_WAIT_S)


def _check(submitted: wire.NewInstance | wire.InstanceUpdate) -> None:
    """Refuse a name that is too long, and a receiver that this provider does not deliver to."""
    if len(submitted.instance_name or "") > MAX_NAME:
        raise Problem(400, "too_long", f"A name has at most {MAX_NAME} characters.", param="instance_name")
    if submitted.delivery is not None and not loopback_url(submitted.delivery.url):
        raise Problem(
            400,
            "invalid_webhook_url",
            "This provider is for development and delivers to loopback only.",
            param="delivery.url",
        )


def _parsed(model: type[M], body: bytes) -> M:
    """Read a body's object; AAP has codes of its own for two of its faults."""
    try:
        return wire.parse_object(model, body)
    except wire.MalformedObject as error:
        code = _CODES.get((error.field, error.reason), error.reason)
        raise Problem(400, code, str(error), param=error.field or None) from None


_CODES = {
    ("delivery.url", "bad_url"): "invalid_webhook_url",
    ("delivery.type", "unknown_value"): "unsupported_delivery_type",
}


def _shown(stored: StoredRequest) -> bytes:
    return strict_json.dumps(stored.view())
