"""The tools of the workers in one pool."""

from soak.tools import CARD_FUNCTIONS, made

globals().update(made(CARD_FUNCTIONS))
