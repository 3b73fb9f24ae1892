"""Statements that no store's database takes, by the rule that refuses them.

A rule has PostgreSQL's name; SQLite has its triggers and indexes under the same names, and names nothing else.
"""

from itertools import product

from support.raw_records import call, change, new

REFUSED: dict[str, list[str | tuple[str, ...]]] = {
    "clock_reset_is_append_only": ["UPDATE clock_reset SET actor = 'nobody'"],
    "clock_reset_is_kept": ["DELETE FROM clock_reset"],
    "epoch_rises": [
        "INSERT INTO epoch (number, reason, actor, at) VALUES (4, 'x', 'x', 1)",
        "INSERT INTO epoch (number, reason, actor, at) VALUES (2, 'x', 'x', 1)",
        "INSERT INTO epoch (number, reason, actor, at) VALUES (3, 'x', 'x', 1), (5, 'x', 'x', 1)",
    ],
    "epoch_is_append_only": ["UPDATE epoch SET at = 0"],
    "epoch_is_kept": ["DELETE FROM epoch WHERE number = 2"],
    "registration_goes_forward": [
        "UPDATE registration SET state = 'expected' WHERE registration_id = 'verified'",
        "UPDATE registration SET state = 'verified' WHERE registration_id = 'superseded'",
        "UPDATE registration SET state = 'superseded', superseded_until = 9 WHERE registration_id = 'expected'",
        "UPDATE registration SET instance_id = 'other' WHERE registration_id = 'replacing'",
        "UPDATE registration SET instance_id = NULL WHERE registration_id = 'replacing'",
        "UPDATE registration SET replacing = 1 WHERE registration_id = 'expected'",
        "UPDATE registration SET superseded_until = 51 WHERE registration_id = 'superseded'",
        "UPDATE registration SET superseded_until = NULL WHERE registration_id = 'superseded'",
        (
            "UPDATE registration SET state = 'retired', retired_at = 9 WHERE registration_id = 'superseded'",
            "UPDATE registration SET state = 'verified' WHERE registration_id = 'superseded'",
        ),
    ],
    "instance_retired_for_good": [
        "UPDATE instance SET state = 'active', retired_at = NULL, sealed_credential = CAST('c' AS BLOB), name = 'again'"
        " WHERE instance_id = 'gone'",
    ],
    "execution_begins_saved": [
        call("x", state="'waiting'"),
        call("x", request_id="'r'"),
        call("x", started_at="1"),
        call("x", expires_at="1"),
        "INSERT INTO execution SELECT * FROM execution WHERE execution_id = 'started'",
    ],
    "execution_follows_arrows": [
        change("waiting", "state = 'saved'"),
        change("succeeded", "state = 'failed'"),
        change("abandoned", "state = 'submitting', finished_at = finished_at, due_at = 1"),
    ],
    "execution_call_is_fixed": [
        *(
            change("succeeded", f"{column} = 'other'")
            for column in (
                "execution_id", "provider", "instance_id", "idempotency_key", "tool", "timeout", "wake", '"group"',
                "reasoning",
            )
        ),
        change("succeeded", "runs = 'harness'"),
        change("succeeded", "digest = CAST('other' AS BLOB)"),
        change("succeeded", "created_at = created_at + 1"),
        change("succeeded", "arguments = CAST('other' AS BLOB)"),
        change("succeeded", "arguments = NULL"),
        change("succeeded", "context = CAST('other' AS BLOB)"),
        change("of-open", '"group" = NULL'),
        (change("saved", "tool_version = '1'"), change("saved", "tool_version = '2'")),
        (change("saved", "tool_version = '1'"), change("saved", "tool_version = NULL")),
    ],
    "execution_decision_is_fixed": [
        *(
            change("succeeded", f"{column} = {other}")
            for column, other in product(
                ("request_created_at", "deadline_at", "decided_at", "expires_at", "started_at", "attempt_number",
                 "finished_at"),
                ("NULL", "777"),
            )
        ),
        *(
            change("succeeded", f"{column} = {other}")
            for column, other in product(("request_id", "claim_id"), ("NULL", "'x'"))
        ),
        change("started", "lease_number = lease_number + 1"),
        change("saved", "lease_number = -1"),
    ],
    "execution_is_kept": ["DELETE FROM execution WHERE execution_id = 'saved'", "DELETE FROM execution"],
    "transition_is_append_only": [
        "UPDATE transition SET actor = 'nobody'",
        "INSERT INTO transition SELECT * FROM transition WHERE number = 1"
        " ON CONFLICT (execution_id, number) DO UPDATE SET actor = 'nobody'",
    ],
    "transition_is_kept": ["DELETE FROM transition WHERE execution_id = 'saved'", "DELETE FROM transition"],
    "call_group_is_fixed": [
        *(f"UPDATE call_group SET {column} = 'other'" for column in ("provider", "instance_id", '"group"', "wake")),
        "UPDATE call_group SET number = number + 100",
        "UPDATE call_group SET created_at = created_at + 1",
        "UPDATE call_group SET sealed_at = 701 WHERE \"group\" = 'sealed'",
        "UPDATE call_group SET sealed_at = NULL WHERE \"group\" = 'sealed'",
    ],
    "call_group_is_kept": ["DELETE FROM call_group"],
    "execution_fits_its_group": [
        call("x", group="'sealed'", wake="'w'"),
        call("x", group="'open'", wake="'another'"),
        "INSERT INTO execution (execution_id, provider, instance_id, idempotency_key, tool, arguments, timeout, digest,"
        " runs, wake, \"group\", state, actor, due_at, created_at, changed_at)"
        " SELECT 'x' || number, provider, instance_id, 'x' || number, tool, arguments, timeout, digest,"
        " runs, 'w' || number, 'two at once', 'saved', actor, 1, created_at, changed_at FROM execution"
        " WHERE execution_id IN ('saved', 'denied')",
    ],
    "filling_is_one": ["INSERT INTO filling (id, at, \"from\", store, bound) VALUES (2, 1, 'x', 'y', 0)"],
    "filling_bound": ["INSERT INTO filling (id, at, \"from\", store, bound) VALUES (1, 1, 'x', 'y', 2)"],
    "worker_tool_worker_id_fkey": ["INSERT INTO worker_tool (worker_id, tool, version) VALUES ('nobody', 'x', '1')"],
    "moved_is_one": ["INSERT INTO moved (id, at, \"to\") VALUES (2, 1, 'x')"],
    "probe_is_one": ["INSERT INTO probe (id, writes) VALUES (2, 0)", "UPDATE probe SET id = 2"],
    "backup_is_one": ["INSERT INTO backup (id, made_at) VALUES (2, 0)"],
    "numbering_is_one": ["UPDATE numbering SET id = 2"],
    "numbering_key": ["UPDATE numbering SET key = CAST('short' AS BLOB)"],
    "registration_state": [new("registration", state="'other'")],
    "registration_superseded_until": [new("registration", state="'superseded'", instance_id="'j'", verified_at="1")],
    "registration_replacing_is_open": [
        new("registration", replacing="2", instance_id="'j'"),
        new("registration", replacing="1"),
        new("registration", replacing="1", instance_id="'j'", state="'retired'", retired_at="1"),
    ],
    "registration_verified": [
        new("registration", state="'verified'", verified_at="1"),
        new("registration", state="'verified'", instance_id="'j'"),
        new("registration", state="'superseded'", superseded_until="9"),
    ],
    "registration_retired": [new("registration", state="'retired'")],
    "instance_state": [new("instance", state="'other'")],
    "instance_delivery": [new("instance", delivery="'other'")],
    "instance_retired_has_no_credential": [
        new("instance", sealed_credential="NULL"),
        new("instance", state="'retired'", retired_at="1"),
    ],
    "instance_retired_at": [
        new("instance", retired_at="1"),
        new("instance", state="'retired'", sealed_credential="NULL"),
    ],
    "notification_state": [new("notification", state="'other'", handled_at="1")],
    "notification_handled_at": [new("notification", handled_at="1"), new("notification", state="'handled'")],
    "notification_discarded_has_a_reason": [new("notification", state="'discarded'", handled_at="1")],
    "execution_tool": [call("x", tool="''")],
    "execution_digest": [call("x", digest="CAST('short' AS BLOB)")],
    "execution_runs": [call("x", runs="'other'")],
    "execution_state": [
        (
            "INSERT INTO arrow (from_state, to_state) VALUES ('saved', 'other')",
            change("saved", "state = 'other', due_at = NULL"),
        ),
    ],
    "execution_started_in_time": [
        change("permitted", "state = 'started', attempt_number = 0, lease_until = 900, started_at = expires_at"),
    ],
    "execution_decided_before_it_expires": [
        change("waiting", "state = 'permitted', due_at = NULL, decided_at = 200, expires_at = 200"),
        change("waiting", "state = 'permitted', due_at = NULL, expires_at = 200"),
    ],
    "execution_start_is_known": [
        change("permitted", "state = 'started', lease_until = 900, started_at = 300"),
        change("permitted", "state = 'started', lease_until = 900, attempt_number = 0"),
    ],
    "execution_started_has_a_lease": [change("started", "lease_until = NULL")],
    "execution_permitted_expires": [change("waiting", "state = 'permitted', due_at = NULL")],
    "execution_has_its_request": [change("submitting", "state = 'waiting'")],
    "execution_request_is_whole": [
        change("submitting", "request_id = 'r', request_created_at = 1"),
        change("submitting", "request_id = 'r', deadline_at = 1"),
        change("submitting", "deadline_at = 1, request_created_at = 1"),
    ],
    "execution_undecided_is_due": [change("waiting", "due_at = NULL"), change("permitted", "due_at = 1")],
    "execution_erased_is_resolved": [change("in_doubt", "erased_at = 1, arguments = NULL")],
    "execution_erased_has_no_arguments": [change("succeeded", "erased_at = 1")],
    "execution_held_is_open": [change("started", "hold_until = 1")],
    "wake_state": [new("wake", state="'other'", due_at="NULL")],
    "wake_owed_is_due": [new("wake", due_at="NULL"), new("wake", state="'undelivered'")],
    "wake_delivered_at": [new("wake", delivered_at="1"), new("wake", state="'delivered'", due_at="NULL")],
    "registration_expected_name": [new("registration", name="'n'")],
    "registration_replacing": [
        new("registration", name="'m'", replacing="1", instance_id="'i'", state="'verified'", verified_at="1"),
    ],
    "instance_name": [new("instance", name="'n'")],
    "notification_provider_event_id_key": [new("notification", event_id="'e'", instance_id="'other'")],
    "anomaly_kind_provider_instance_id_subject_id_detail_key": [new("anomaly")],
    "execution_execution_id_key": [call("x", execution_id="'saved'")],
    "execution_provider_instance_id_idempotency_key_key": [call("x", idempotency_key="'saved'")],
    "execution_provider_instance_id_request_id_key": [
        change("submitting", "request_id = 'waiting-r', request_created_at = 1, deadline_at = 1"),
    ],
    "transition_started_once": [new("transition", execution_id="'started'", to_state="'started'")],
    "wake_execution_id_number_key": [(new("wake"), new("wake", wake_id="'other'"))],
    "wake_rowid_key": [new("wake", rowid="(SELECT MIN(rowid) FROM wake)")],
    "wake_group": [new("wake", group_number="(SELECT number FROM call_group WHERE \"group\" = 'sealed')")],
    "call_group_provider_instance_id_group_key": [new("call_group", group="'open'")],
    "execution_provider_instance_id_fkey": [
        call("x", instance_id="'unknown'"),
        "DELETE FROM instance WHERE instance_id = 'i'",
    ],
    "transition_execution_id_fkey": [new("transition", execution_id="'unknown'")],
    "wake_execution_id_fkey": [new("wake", execution_id="'unknown'")],
    "wake_group_number_fkey": [new("wake", group_number="777")],
    "call_group_provider_instance_id_fkey": [new("call_group", instance_id="'unknown'")],
    "execution_consumption_is_fixed": [
        (change("waiting", "consumed_at = 1"), change("waiting", "consumed_at = 2")),
        (change("waiting", "consumed_at = 1"), change("waiting", "consumed_at = NULL")),
    ],
    "execution_report_is_of_a_consumption": [change("succeeded", "report_due_at = 1")],
    "adoption_state": [new("adoption", state="'other'", due_at="NULL")],
    "adoption_last_end": [new("adoption", last_end="'other'")],
    "adoption_owed_is_due": [
        new("adoption", due_at="NULL"), new("adoption", state="'ended'", ended_at="1", reason="'x'"),
    ],
    "adoption_ended_has_its_time": [
        new("adoption", ended_at="1"), new("adoption", state="'ended'", due_at="NULL", reason="'x'"),
    ],
    "adoption_ended_has_a_reason": [new("adoption", state="'ended'", due_at="NULL", ended_at="1")],
    "adoption_thread_is_whole": [new("adoption", framework="'f'"), new("adoption", thread="'t'")],
    "adoption_run_has_its_thread": [
        new("adoption", run_until="9", run_began_at="1"),
        new("adoption", run_until="9", framework="'f'", thread="'t'"),
        new(
            "adoption", run_until="9", run_began_at="1", framework="'f'", thread="'t'", state="'ended'", due_at="NULL",
            ended_at="1", reason="'x'",
        ),
    ],
    "adoption_one_run_a_thread": [
        new("adoption", run_until="9", run_began_at="1", framework="'langgraph'", thread="'running'"),
    ],
    "adoption_provider_instance_id_request_id_key": [new("adoption", request_id="'running'")],
    "adoption_mark_is_one": ["INSERT INTO adoption_mark (id, number) VALUES (2, 0)"],
    "worker_resumer_worker_id_fkey": ["INSERT INTO worker_resumer (worker_id, framework) VALUES ('nobody', 'x')"],
    "resolution_execution_id_fkey": [new("resolution", execution_id="'unknown'")],
}  # fmt: skip
"""What is refused: the rule that does it → statements; of several in parentheses the last."""
