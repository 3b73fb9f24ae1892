"""Registrations: expected → verified → superseded / retired."""

from dataclasses import asdict

from wakegate_schema.records import Binding, Challenge, Registration
from wakegate_schema.store.errors import NotAllowed, NotFound
from wakegate_schema.store.transaction import Row, Transaction, each
from wakegate_schema.store.verbs.mapping import record
from wakegate_schema.store.verbs.repeats import confirm


@each
def add(tx: Transaction, registration: Registration) -> None:
    """Save a registration."""
    if tx.first("registration", {"registration_id": registration.registration_id}):
        raise NotAllowed(f"registration {registration.registration_id} is on record already")
    if registration.state == "expected" and tx.first(
        "registration_expected_name", {"provider": registration.provider, "name": registration.name}
    ):
        raise NotAllowed(f"another registration named {registration.name} is still expected at {registration.provider}")
    if registration.replacing:
        _require_replaceable(tx, registration)
    tx.change("registration_add", asdict(registration))


def every(tx: Transaction) -> list[Registration]:
    """Return all of them, oldest first."""
    return [record(Registration, row) for row in tx.all("registrations")]


@each
def bind(tx: Transaction, challenge: Challenge) -> Binding:
    """Bind the challenged instance, or say why not (DESIGN, "The receiver's answers")."""
    row = tx.first("registration", {"registration_id": challenge.registration_id})
    if row is None:
        return Binding("unknown_registration")
    if row["state"] == "retired":
        return Binding("registration_retired")
    if row["state"] == "superseded" and row["superseded_until"] <= challenge.at:
        return Binding("registration_superseded")
    if row["instance_id"] == challenge.instance_id and row["state"] in ("verified", "superseded"):
        confirm(tx)
        return Binding(None)
    if row["state"] == "expected" and row["expected_until"] <= challenge.at:
        return Binding("registration_expired")
    other = row["instance_id"] != challenge.instance_id
    if other and row["instance_id"] is not None and _is_fixed(tx, row):
        return Binding("bound_to_other_instance")
    if other and _is_bound_elsewhere(tx, row, challenge.instance_id):
        return Binding("instance_bound_elsewhere")
    tx.change(
        "registration_bind",
        {
            "registration_id": challenge.registration_id,
            "instance_id": challenge.instance_id,
            "at": challenge.at,
        },
    )
    return Binding(None)


@each
def put_in_force(tx: Transaction, item: tuple[str, int]) -> int:
    """Let a verified replacement take the place of every other registration of its instance."""
    registration_id, until = item
    row = tx.first("registration", {"registration_id": registration_id})
    if row is None:
        raise NotFound(f"there is no registration {registration_id}; see `wakegate instance show`")
    if row["state"] != "verified":
        raise NotAllowed(f"registration {registration_id} is {row['state']}: the receiver has not verified it")
    if not row["replacing"]:
        confirm(tx)
        return 0
    key = {"provider": row["provider"], "instance_id": row["instance_id"], "until": until}
    tx.change("registrations_end_sooner", key)
    superseded = tx.change("registrations_supersede", key | {"registration_id": registration_id})
    tx.change("registration_in_force", {"registration_id": registration_id})
    return superseded


@each
def reseal(tx: Transaction, item: tuple[str, bytes, bytes]) -> bool:
    """Exchange the sealed secret that was seen for another sealing of it."""
    registration_id, seen, sealed = item
    return tx.change("registration_reseal", {"registration_id": registration_id, "seen": seen, "sealed": sealed}) == 1


@each
def retire(tx: Transaction, registration_and_time: tuple[str, int]) -> None:
    """Give up a registration."""
    registration_id, at = registration_and_time
    if tx.change("registration_retire", {"registration_id": registration_id, "at": at}) == 0:
        confirm(tx)


def _require_replaceable(tx: Transaction, registration: Registration) -> None:
    key = {"provider": registration.provider, "instance_id": registration.instance_id}
    instance = tx.first("instance", key)
    if instance is None or instance["state"] == "retired":
        raise NotAllowed(f"there is no instance {registration.instance_id} whose registration could be replaced")
    other = tx.first("registration_replacing", key)
    if other is not None:
        raise NotAllowed(
            f"registration {other['registration_id']} is replacing the one of {registration.name} already;"
            " run `wakegate instance rotate` again to finish that"
        )


def _is_fixed(tx: Transaction, row: Row) -> bool:
    """Whether this registration's instance may not be another: it was named beforehand, or its credential is stored."""
    if row["state"] in ("expected", "superseded"):
        return True
    return tx.first("instance", {"provider": row["provider"], "instance_id": row["instance_id"]}) is not None


def _is_bound_elsewhere(tx: Transaction, row: Row, instance_id: str) -> bool:
    """Whether the instance is known already, or bound to another registration of this provider."""
    params = {"provider": row["provider"], "instance_id": instance_id}
    return tx.first("instance", params) is not None or any(
        other["registration_id"] != row["registration_id"] for other in tx.all("registrations_of_instance", params)
    )
