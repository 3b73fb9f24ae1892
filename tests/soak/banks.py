"""The tools of the workers in the other pool."""

from soak.tools import BANK_FUNCTIONS, made

globals().update(made(BANK_FUNCTIONS))
