"""The policy file: which rule counts, and what a malformed file is told."""

import pytest

from support.tables import each_row
from wakegate_provider.policy import DEFAULT_APPROVAL_TTL, Policy, PolicyError, Rule, load_policy, parse_policy
from wakegate_schema.clock import MINUTE, SECOND

FILE = """
[[rule]]
tool = "refund_*"
decision = "approve"
note = "small refunds are fine"
approval_ttl = "10m"
delay = "2s"

[[rule]]
tool = "delete_[ab]*"
decision = "deny"
note = "never"

[[rule]]
tool = "wire_*"
decision = "ask"
approval_ttl = "1h"

[[rule]]
tool = "*"
decision = "approve"
"""


@pytest.fixture
def policy() -> Policy:
    return parse_policy(FILE, "policy.toml")


def test_the_first_rule_whose_glob_matches_counts(policy: Policy) -> None:
    assert policy.rule_for("refund_card") == Rule(
        "refund_*", "approve", "small refunds are fine", 10 * MINUTE, 2 * SECOND
    )


def test_a_denial_has_its_note(policy: Policy) -> None:
    assert policy.rule_for("delete_account").note == "never"


def test_an_asking_rule_says_how_long_an_approval_lasts(policy: Policy) -> None:
    assert policy.rule_for("wire_money") == Rule("wire_*", "ask", None, 60 * MINUTE)


def test_a_later_rule_takes_what_earlier_ones_leave(policy: Policy) -> None:
    assert policy.rule_for("delete_customer") == Rule("*", "approve")


def test_a_glob_matches_the_whole_name_and_its_case(policy: Policy) -> None:
    assert policy.rule_for("Refund_card").tool == "*"
    assert policy.rule_for("my_refund_card").tool == "*"


def test_without_a_file_every_call_is_asked_about() -> None:
    rule = load_policy(None).rule_for("anything")
    assert (rule.decision, rule.approval_ttl, rule.delay) == ("ask", DEFAULT_APPROVAL_TTL, 0)


def test_an_empty_file_asks_about_every_call() -> None:
    assert parse_policy("", "p").rule_for("anything").decision == "ask"


@each_row(
    ("text", "says"),
    [
        ("[[rule]", "is not TOML"),
        ('[[rule]]\ntool = "a"', "rule 1, decision"),
        ('[[rule]]\ndecision = "deny"', "rule 1, tool"),
        ('[[rule]]\ntool = "a"\ndecision = "allow"', "rule 1, decision"),
        ('[[rule]]\ntool = ""\ndecision = "deny"', "rule 1, tool"),
        ('[[rule]]\ntool = 7\ndecision = "deny"', "rule 1, tool"),
        ('[[rule]]\ntool = "a"\ndecision = "deny"\nnotes = "x"', "rule 1, notes"),
        ('[[rules]]\ntool = "a"\ndecision = "deny"', "rules"),
        ('[[rule]]\ntool = "a"\ndecision = "approve"\napproval_ttl = "10"', "rule 1, approval_ttl: must be a duration"),
        ('[[rule]]\ntool = "a"\ndecision = "approve"\ndelay = "0s"', "rule 1, delay: must be a duration"),
        ('[[rule]]\ntool = "a"\ndecision = "approve"\napproval_ttl = 10', "rule 1, approval_ttl"),
        ('[[rule]]\ntool = "a"\ndecision = "ask"\nnote = "x"', "rule 1: note and delay"),
        ('[[rule]]\ntool = "a"\ndecision = "ask"\ndelay = "1s"', "rule 1: note and delay"),
        ('[[rule]]\ntool = "a"\ndecision = "deny"\napproval_ttl = "1m"', "rule 1: approval_ttl belongs"),
        ('rule = "approve"', "rule: must be tables, each [[rule]]"),
        ('[[rule]]\ntool = "a"\ndecision = "deny"\nttl = "1m"', "unknown key; did you mean approval_ttl?"),
        ('[[rule]]\ntool = "a"\ndecision = "deny"\ntll = "1m"', "unknown key; did you mean approval_ttl?"),
        ('[[rule]]\ntool = "a"\ndecision = "deny"\ncolour = "x"', "there are tool, decision, note, approval_ttl"),
        ('[[rule]]\ntool = "a"\ndecision = "allow"', "must be 'approve', 'deny' or 'ask'"),
        ('[[rule]]\ndecision = "deny"', "rule 1, tool: is missing"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line_that_names_file_rule_and_key(text: str, says: str) -> None:
    with pytest.raises(PolicyError) as refused:
        parse_policy(text, "policy.toml")
    message = str(refused.value)
    assert message.startswith("the policy file policy.toml ")
    assert says in message
    assert "\n" not in message


def test_the_second_rule_is_called_the_second() -> None:
    good = '[[rule]]\ntool = "a"\ndecision = "deny"\n'
    with pytest.raises(PolicyError, match="rule 2, decision"):
        parse_policy(good + '[[rule]]\ntool = "b"\ndecision = "no"', "p")
