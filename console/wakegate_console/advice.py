"""Advice: what a person can do about an execution or an instance, in one line."""

from wakegate_schema import timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Adoption, Doubts, Execution, Instance, Notification
from wakegate_schema.states import State


def for_execution(record: Execution, instance_name: str) -> str | None:
    """Return the next step of an execution, or None when it is resolved and nobody is still to be told of it.

    Args:
        record: the execution.
        instance_name: the name of its instance.
    """
    if record.state is State.IN_DOUBT:
        runs_on = (
            "" if record.lease_until is None else "it went on when it was last heard of; wait for its own word, or "
        )
        return (
            f"{runs_on}find out whether the call happened, then: wakegate execution resolve"
            f" {record.execution_id[:8]} --happened (or --did-not-happen) --by NAME --note TEXT"
        )
    if record.problem in _CREDENTIAL:
        return f"wakegate instance credential {instance_name} --credential-file FILE"
    if record.problem is not None:
        advice = _PROBLEMS.get(record.problem, "it is tried again at due_at; docs/reasons.md says what the problem is")
        return f"{advice}: {record.tool}" if record.problem in _OF_THE_TOOL else advice
    if record.report_due_at is not None:
        return "its provider is still to be told what came of the approval; that is tried (again) at report_due_at"
    return _STATES.get(record.state)


def for_problem(problem: str) -> str | None:
    """Return what to do about what keeps calls from going on, or None where it only takes time."""
    if problem in _CREDENTIAL:
        return "wakegate instance credential INSTANCE --credential-file FILE"
    return _PROBLEMS.get(problem)


def for_unmatched(record: Notification, adoption: Adoption | None) -> str | None:
    """Return the next step of a notification whose request nobody saved here; None when nothing more is to come."""
    if adoption is not None:
        return for_adoption(adoption)
    if record.state != "received":
        return None
    return (
        "nobody saved its request here; if a harness that gates its tools with the SDK waits for it, name what resumes"
        " it by WAKEGATE_RESUMERS and restart a worker"
    )


def for_adoption(record: Adoption) -> str | None:
    """Return the next step of an adopted request, or None when it came to its end."""
    if record.state == "ended":
        return _ADOPTIONS_ENDED.get(record.reason or "")
    if record.run_until is not None:
        return "its resumer runs, or has died: then it is run again when run_until is over"
    if record.problem in _CREDENTIAL:
        return "wakegate instance credential INSTANCE --credential-file FILE"
    if record.problem is not None:
        word = _RESUMERS.get(record.problem) or _PROBLEMS.get(record.problem)
        return word or "it is tried again at due_at; docs/reasons.md says what the problem is"
    if record.framework is None:
        return "waits for a worker to read its request; is one with WAKEGATE_RESUMERS running?"
    return (
        f"a worker with a resumer for {record.framework} looks at it at due_at, until the run was seen to go on, or was"
        " told often enough (docs/resumers.md); wakegate doctor says if no worker has one"
    )


def of_doubts(doubts: Doubts) -> str:
    """Return how much is in doubt, since when, and what to do about it; there is something."""
    calls = "1 call is" if doubts.count == 1 else f"{doubts.count} calls are"
    return (
        f"wakegate: {calls} in doubt, since {timestamps.render((doubts.since or 0) // SECOND * SECOND)}: find out"
        " whether it happened, then: wakegate execution resolve EXECUTION --happened (or --did-not-happen)"
        " --by NAME --note TEXT"
    )


def for_instance(record: Instance) -> str | None:
    """Return the next step of an instance, or None when there is none."""
    if record.state == "parked":
        return (
            "the provider refused its credential; get a new one and run:"
            f" wakegate instance credential {record.name} --credential-file FILE"
        )
    return None


def for_rotation(name: str, registration_id: str) -> str:
    """Return the next step of a rotation that is not finished."""
    return (
        f"a rotation is not finished; repeat it: wakegate instance rotate {name} --provisioner-token-file FILE (or give"
        f" it up: wakegate instance retire {registration_id})"
    )


def for_registration(state: str, name: str) -> str | None:
    """Return the next step of a registration that has no instance yet."""
    if state == "expected":
        return "waits for the provider's challenge; provisioned here, repeat `wakegate instance provision`"
    if state == "verified":
        return f"wakegate instance credential {name} --credential-file FILE"
    return None


_CREDENTIAL = {
    "cannot_unseal",
    "credential_of_another_instance",
    "credential_of_another_provider",
    "credential_refused",
    "instance_parked",
    "sealed_for_another_purpose",
}
_OF_THE_TOOL = {"arguments_do_not_fit", "no_worker_has_the_tool"}
_PROBLEMS = {
    "arguments_do_not_fit": "approved, but the saved arguments do not fit the tool's parameters; correct the tool and"
    " restart the worker",
    "clock_behind": "correct the clock of the worker's host; if it is right now: wakegate clock reset --by NAME",
    "connection_refused": "nothing listens at the provider's address; start the provider",
    "consumption_disagrees": "the provider contradicts itself about the approval; ask whoever runs it",
    "consumption_unsupported": "the provider takes no consumption, without which nothing starts there; ask whoever runs"
    " it, or look at WAKEGATE_CONSUMPTION",
    "dns": "the provider's name does not resolve; check the network",
    "no_thread": "tools that hang have all threads of the worker; restart it",
    "no_worker_has_the_tool": "no living worker has its tool at this version; run one with the module in"
    " WAKEGATE_TOOLS",
    "older_epoch": "the store was restored, and the call may have run in the time that it does not know of: find out,"
    " then run `wakegate execution release`, after which it may run (again), or `wakegate execution abandon`",
    "not_found": "the provider does not know the request, or its base URL is wrong",
}
_RESUMERS = {
    "entry_point_missing": "the worker cannot import what WAKEGATE_RESUMERS names; `wakegate doctor` says why",
    "entry_point_raised": "its resumer has failed, and is run again at due_at; the worker's log names type and place",
    "keeper_lost": "its resumer was killed, and is run again at due_at; was there too little memory?",
    "pending_after_notification": "the provider sent the notification and still says pending; it is asked again",
    "program_not_started": "its resumer could not be started; is WAKEGATE_RESUMERS_DIRECTORY there?",
    "thread_lost": "the worker could not reach the store in time, so its resumer was ended; it is run again at due_at",
    "timeout": "its resumer took longer than WAKEGATE_RESUMER_SECONDS; raise that, or find out what it waits for",
}
_ADOPTIONS_ENDED = {
    "approval_expired": "the call was approved and nobody ran it in time; if it is still wanted, the agent has to ask"
    " again",
    "consumed_in_doubt": "a run was cut off after it had spent the approval, and the provider was told nothing of the"
    " call: find out whether it happened",
    "given_up": "eight days were not enough: the run still waits in the harness's checkpoint; the worker's log says"
    " what failed",
    "instance_retired": "nothing can be read under a retired instance; the run still waits in the harness's checkpoint",
    "no_resume_handle": "its request names no framework in context.resume: whoever asked for it has to look itself",
}
_STATES = {
    State.SAVED: "waits for a worker to submit it; is one running?",
    State.SUBMITTING: "the worker is submitting it",
    State.WAITING: "waits for the provider's decision, until deadline_at",
    State.PERMITTED: "the harness may claim it, until expires_at",
    State.STARTED: "the call is running",
}
