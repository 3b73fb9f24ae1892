"""The policy file says whether approvals can be consumed."""

import pytest

from wakegate_provider.policy import Policy, PolicyError, load_policy, parse_policy


def test_consumption_is_what_the_file_says_and_off_unless_it_says_so() -> None:
    assert parse_policy("consumption = true", "policy.toml") == Policy(consumption=True)
    assert parse_policy("consumption = false", "policy.toml") == Policy()
    assert not load_policy(None).consumption


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("consumption = 1", "consumption: must be true or false"),
        ('consumption = "yes"', "consumption: must be true or false"),
        ("consumtion = true", "unknown key; did you mean consumption?"),
    ],
)
def test_a_mistake_about_it_is_told(text: str, told: str) -> None:
    with pytest.raises(PolicyError, match=r"policy\.toml") as error:
        parse_policy(text, "policy.toml")
    assert told in str(error.value)
